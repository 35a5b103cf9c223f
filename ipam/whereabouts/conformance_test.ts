/**
 * whereabouts, as the reference's own tests have it.
 *
 * Source: github.com/k8snetworkplumbingwg/whereabouts v0.9.4
 * cmd/whereabouts_test.go, pkg/allocate, pkg/config, pkg/storage/kubernetes.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import { POOLS, WhereaboutsScene } from "./testing/scene.ts";

/** A row with a cluster of its own. */
function inCluster(
  run: (scene: WhereaboutsScene) => Promise<void>,
): Row {
  return async () => {
    await using scene = await WhereaboutsScene.start();
    await run(scene);
  };
}

/** ADD of a first pod takes these addresses; again after a DEL. */
function takes(ipam: JsonObject, ...expected: string[]): Row {
  return inCluster(async (scene) => {
    assertEquals(await scene.add(ipam), expected);
    await scene.del(ipam);
    assertEquals(await scene.add(ipam), expected);
  });
}

/** ADD of several pods allocates these addresses. */
function takesInTurn(ipam: JsonObject, expected: string[]): Row {
  return inCluster(async (scene) => {
    for (const [index, address] of expected.entries()) {
      const pod = `p${index}`;
      assertEquals(await scene.add(ipam, { pod }), [address]);
      await scene.del(ipam, { pod });
      assertEquals(await scene.add(ipam, { pod }), [address]);
    }
  });
}

/** ADD fails with this text, and leaves no record. */
function refuses(ipam: JsonObject | undefined, text: string | RegExp): Row {
  return inCluster(async (scene) => {
    const { msg } = await scene.failure(ipam);
    assertMatch(msg, typeof text === "string" ? literally(text) : text);
    for (const pool of scene.names("ippools")) {
      assertEquals(scene.allocations(pool), {});
    }
  });
}

function literally(text: string): RegExp {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
}

function listV4(
  prefix: string,
  from: number,
  to: number,
  bits: number,
): string[] {
  return Array.from(
    { length: to - from + 1 },
    (_, index) => `${prefix}.${from + index}/${bits}`,
  );
}

conformance("whereabouts", {
  "WA-1 a record of the same pod and interface is returned": inCluster(
    async (scene) => {
      const record = { id: "id-p1", podref: "test/p1", ifname: "net1" };
      scene.putPool("192.168.1.0-24", "192.168.1.0/24", { "1": record });
      assertEquals(await scene.add({ range: "192.168.1.0/24" }), [
        "192.168.1.1/24",
      ]);
      assertEquals(scene.allocations("192.168.1.0-24"), { "1": record });
    },
  ),
  "WA-2 IPv4: ADD, DEL and ADD take the lowest address": takes(
    { range: "192.168.1.0/24", gateway: "192.168.10.1" },
    "192.168.1.1/24",
  ),
  "WA-2 IPv6: ADD, DEL and ADD take the lowest address": takes(
    { range: "2001::1/116" },
    "2001::1/116",
  ),
  "WA-2 a gateway outside of the range is in the result": inCluster(
    async (scene) => {
      const ipam = { range: "192.168.1.0/24", gateway: "192.168.10.1" };
      const { json } = await scene.call("ADD", ipam);
      assertEquals(json, {
        cniVersion: "1.1.0",
        ips: [{ address: "192.168.1.1/24", gateway: "192.168.10.1" }],
      });
    },
  ),
  "WA-3 a range with both ends is handed out from its first address":
    takesInTurn(
      { range: "192.168.1.11-192.168.1.23/24" },
      listV4("192.168.1", 11, 22, 24),
    ),
  "WA-4 names of IPv6 objects are valid": inCluster(async (scene) => {
    assertEquals(await scene.add({ range: "fd::1/116" }), ["fd::1/116"]);
    const range = "fd00:0:0:10:0:0:3:1-fd00:0:0:10:0:0:3:6/64";
    assertEquals(await scene.add({ range }, { pod: "p2" }), [
      "fd00::10:0:0:3:1/64",
    ]);
    assertEquals(scene.names("ippools"), ["fd---116", "fd00-0-0-10---64"]);
    assertEquals(scene.reservations(), ["fd--1", "fd00--10-0-0-3-1"]);
  }),
  "WA-5 IPv6 ranges with both ends, in long form": inCluster(async (scene) => {
    const long = "2001:db8:480:603d:0304:0403:000:0000-" +
      "2001:db8:480:603d:0304:0403:0000:0004/64";
    assertEquals(await scene.add({ range: long }), [
      "2001:db8:480:603d:304:403::/64",
    ]);
    const half =
      "2001:db8:5422:0005::-2001:db8:5422:0005:7fff:ffff:ffff:ffff/64";
    assertEquals(await scene.add({ range: half }, { pod: "p2" }), [
      "2001:db8:5422:5::1/64",
    ]);
  }),
  "WA-6 excluded IPv4 networks are skipped": takes(
    { range: "192.168.1.0/24", exclude: ["192.168.1.0/28", "192.168.1.16/28"] },
    "192.168.1.32/24",
  ),
  "WA-6 excluded IPv6 addresses are skipped": takes(
    {
      range: "2001::1/116",
      exclude: ["2001::0/128", "2001::1/128", "2001::2/128"],
    },
    "2001::3/116",
  ),
  "WA-6 an excluded half of a network is skipped in one step": takes(
    { range: "caa5::0/112", exclude: ["caa5::0/113"] },
    "caa5::8000/112",
  ),
  "WA-7 static addresses, routes and DNS are in the result": inCluster(
    async (scene) => {
      const routes = [{ dst: "0.0.0.0/0", gw: "10.10.0.254" }];
      const dns = { nameservers: ["8.8.8.8"], domain: "example.com" };
      const { json } = await scene.call("ADD", {
        range: "192.168.1.44/28",
        gateway: "192.168.1.33",
        addresses: [
          { address: "10.10.0.1/24", gateway: "10.10.0.254" },
          { address: "3ffe:ffff:0:1ff::1/64", gateway: "3ffe:ffff::1" },
        ],
        routes,
        dns,
      });
      assertEquals(json, {
        cniVersion: "1.1.0",
        ips: [
          { address: "192.168.1.33/28", gateway: "192.168.1.33" },
          { address: "10.10.0.1/24", gateway: "10.10.0.254" },
          { address: "3ffe:ffff:0:1ff::1/64", gateway: "3ffe:ffff::1" },
        ],
        routes,
        dns,
      });
    },
  ),
  "WA-8 ipRanges with one range": takes(
    { ipRanges: [{ range: "192.168.10.0/24" }], gateway: "192.168.10.1" },
    "192.168.10.1/24",
  ),
  "WA-8 ipRanges with one range of each family": takes(
    { ipRanges: [{ range: "192.168.10.1/24" }, { range: "abcd::1/64" }] },
    "192.168.10.1/24",
    "abcd::1/64",
  ),
  "WA-8 range comes before ipRanges": takes(
    { range: "abcd::1/64", ipRanges: [{ range: "192.168.10.1/24" }] },
    "abcd::1/64",
    "192.168.10.1/24",
  ),
  "WA-9 the first address of a range with both ends": takes(
    { range: "192.168.1.5-192.168.1.25/24" },
    "192.168.1.5/24",
  ),
  "WA-9 range_start": takes(
    { range: "192.168.1.0/24", range_start: "192.168.1.5" },
    "192.168.1.5/24",
  ),
  "WA-9 range_start and range_end bound the addresses": inCluster(
    async (scene) => {
      const ipam = {
        range: "192.168.1.0/24",
        range_start: "192.168.1.5",
        range_end: "192.168.1.12",
      };
      for (const [index, address] of listV4("192.168.1", 5, 12, 24).entries()) {
        assertEquals(await scene.add(ipam, { pod: `p${index}` }), [address]);
      }
      const { code, msg } = await scene.failure(ipam, { pod: "p8" });
      assertEquals(
        [code, msg],
        [
          11,
          "error at storage engine: Could not allocate IP in range: ip: " +
          "192.168.1.5 / - 192.168.1.12 / range: 192.168.1.0/24 / " +
          "excludeRanges: []",
        ],
      );
    },
  ),
  "WA-10 overlapping IPv4 ranges do not share an address": inCluster(
    async (scene) => {
      const wide = { range: "192.168.22.0/24" };
      const narrow = { range: "192.168.22.0/28" };
      assertEquals(await scene.add(wide), ["192.168.22.1/24"]);
      assertEquals(await scene.add(narrow, { pod: "p2" }), ["192.168.22.2/28"]);
      await scene.del(wide);
      await scene.del(narrow, { pod: "p2" });
      assertEquals(scene.reservations(), []);
      assertEquals(scene.allocations("192.168.22.0-24"), {});
      assertEquals(scene.allocations("192.168.22.0-28"), {});
    },
  ),
  "WA-10 overlapping IPv6 ranges do not share an address": inCluster(
    async (scene) => {
      assertEquals(await scene.add({ range: "2001::2:3:0/124" }), [
        "2001::2:3:1/124",
      ]);
      assertEquals(
        await scene.add({ range: "2001::2:3:0/126" }, { pod: "p2" }),
        [
          "2001::2:3:2/126",
        ],
      );
    },
  ),
  "WA-10 ranges may share addresses if allowed": inCluster(async (scene) => {
    const more = { enable_overlapping_ranges: false };
    const wide = { range: "192.168.22.0/24", ...more };
    const narrow = { range: "192.168.22.0/28", ...more };
    assertEquals(await scene.add(wide), ["192.168.22.1/24"]);
    assertEquals(await scene.add(narrow, { pod: "p2" }), ["192.168.22.1/28"]);
    assertEquals(scene.reservations(), []);
  }),
});

conformance("whereabouts allocator", {
  "the lowest address of ::1/126": takes({ range: "::1/126" }, "::1/126"),
  "the lowest address of 100::2:1/126": takes(
    { range: "100::2:1/126" },
    "100::2:1/126",
  ),
  "an excluded /30 in a /29": takes(
    { range: "192.168.0.0/29", exclude: ["192.168.0.0/30"] },
    "192.168.0.4/29",
  ),
  "an excluded IPv4 address without a length": takes(
    { range: "192.168.0.0/29", exclude: ["192.168.0.1"] },
    "192.168.0.2/29",
  ),
  "an excluded IPv6 address without a length": takes(
    { range: "100::2:1/125", exclude: ["100::2:1"] },
    "100::2:2/125",
  ),
  "an excluded length without an address": refuses(
    { range: "192.168.0.0/29", exclude: ["/123"] },
    "could not parse exclude range, err: ",
  ),
  "a malformed excluded address": refuses(
    { range: "192.168.0.0/29", exclude: ["100::2::1"] },
    "could not parse exclude range, err: ",
  ),
  "a large excluded network in a larger one": takes(
    { range: "2001:db8::/30", exclude: ["2001:db8::/32"] },
    "2001:db9::/30",
  ),
  "unsorted and overlapping exclusions": takes(
    {
      range: "192.168.0.0/28",
      exclude: [
        "192.168.0.8/31",
        "192.168.0.0/30",
        "192.168.0.4/30",
        "192.168.0.0/29",
      ],
    },
    "192.168.0.10/28",
  ),
  "an IPv4 range that is wholly excluded": refuses(
    { range: "192.168.0.0/30", exclude: ["192.168.0.0/30"] },
    "Could not allocate IP in range: ip: 192.168.0.1 / - 192.168.0.2 / range: " +
      "192.168.0.0/30 / excludeRanges: [192.168.0.0/30]",
  ),
  "an IPv6 range that is wholly excluded": refuses(
    { range: "100::/125", exclude: ["100::/126", "100::4/126"] },
    "Could not allocate IP in range",
  ),
  "a range_end inside an exclusion": refuses(
    {
      range: "192.168.0.0/29",
      range_end: "192.168.0.3",
      exclude: ["192.168.0.0/29"],
    },
    "Could not allocate IP in range",
  ),
  "a range_start and range_end outside of the range are ignored": takes(
    {
      range: "192.168.0.0/29",
      range_start: "192.168.1.3",
      range_end: "192.168.1.5",
    },
    "192.168.0.1/29",
  ),
  "the lowest free address is allocated first": inCluster(async (scene) => {
    const ipam = { range: "192.168.0.0/29" };
    const record = (name: string): Record<string, string> => ({
      id: `id-${name}`,
      podref: `test/${name}`,
      ifname: "net1",
    });
    const allocations = {
      "1": record("a"),
      "2": record("b"),
      "5": record("c"),
    } as never;
    scene.putPool("192.168.0.0-29", "192.168.0.0/29", allocations);
    assertEquals(await scene.add(ipam), ["192.168.0.3/29"]);
    assertEquals(
      Object.keys(scene.allocations("192.168.0.0-29") ?? {}),
      ["1", "2", "3", "5"],
    );
  }),
  "a /31 has no usable address": refuses(
    { range: "192.168.0.0/31" },
    "net mask is too short, subnet 192.168.0.0/31 has no usable IP addresses, " +
      "it is too small",
  ),
  "a /127 has no usable address": refuses(
    { range: "fd00::/127" },
    "net mask is too short, subnet fd00::/127 has no usable IP addresses",
  ),
  "offsets of 64 bits and more are decimal": inCluster(async (scene) => {
    const ipam = {
      range: "2001:db8::/32",
      range_start: "2001:db8:ffff:ffff:ffff:ffff:ffff:fff0",
      range_end: "2001:db8:ffff:ffff:ffff:ffff:ffff:fffd",
    };
    assertEquals(await scene.add(ipam), [
      "2001:db8:ffff:ffff:ffff:ffff:ffff:fff0/32",
    ]);
    const key = String((1n << 96n) - 16n);
    assertEquals(Object.keys(scene.allocations("2001-db8---32") ?? {}), [key]);
    await scene.del(ipam);
    assertEquals(scene.allocations("2001-db8---32"), {});
  }),
  "a pool keeps keys that are not offsets in its range": inCluster(
    async (scene) => {
      const odd = { id: "x", podref: "test/x", ifname: "net1" };
      const odds = { "9223372036854775808": odd, "none": odd };
      scene.putPool("10.0.0.0-24", "10.0.0.0/24", odds);
      const ipam = { range: "10.0.0.0/24" };
      assertEquals(await scene.add(ipam), ["10.0.0.1/24"]);
      await scene.del(ipam);
      assertEquals(scene.allocations("10.0.0.0-24"), odds);
    },
  ),
});

conformance("whereabouts config", {
  "without ipam": refuses(undefined, "IPAM config missing 'ipam' key"),
  "another type": refuses(
    { type: "host-local", range: "10.0.0.0/24" },
    "only interested in networks whose IPAM type is 'whereabouts'. " +
      "This one was: host-local",
  ),
  "no kubeconfig and no flat file": refuses(
    { range: "10.0.0.0/24", kubernetes: {} },
    "you have not configured the storage engine (looks like you're using an " +
      "invalid `kubernetes.kubeconfig` parameter in your config)",
  ),
  "the flat file has the kubeconfig and the configuration wins": inCluster(
    async (scene) => {
      const path = scene.write("whereabouts.conf", {
        datastore: "kubernetes",
        kubernetes: { kubeconfig: scene.kubeconfig },
        log_file: "/tmp/whereabouts.log",
        log_level: "debug",
        gateway: "10.10.10.1",
        leader_lease_duration: 3000,
        leader_renew_deadline: 2000,
        leader_retry_period: 1000,
      });
      const ipam = {
        configuration_path: path,
        kubernetes: {},
        range: "10.0.0.0/24",
        leader_lease_duration: 1500,
      };
      const { json } = await scene.call("ADD", {
        ...ipam,
        gateway: "10.0.0.9",
      });
      assertEquals(json.ips, [{ address: "10.0.0.1/24", gateway: "10.0.0.9" }]);
      const other = await scene.call("ADD", ipam, { pod: "p2" });
      assertEquals(other.json.ips, [
        { address: "10.0.0.2/24", gateway: "10.10.10.1" },
      ]);
    },
  ),
  "enable_overlapping_ranges in the flat file is ignored": inCluster(
    async (scene) => {
      const flat = (value: boolean): string =>
        scene.write("whereabouts.conf", { enable_overlapping_ranges: value });
      const path = flat(false);
      const ipam = { configuration_path: path, range: "10.0.0.0/24" };
      await scene.add(ipam);
      assertEquals(scene.reservations(), ["10.0.0.1"]);
      flat(true);
      const off = { ...ipam, enable_overlapping_ranges: false };
      await scene.add(off, { pod: "p2" });
      assertEquals(scene.reservations(), ["10.0.0.1"]);
    },
  ),
  "leading zeros in every form of a range": inCluster(async (scene) => {
    const ipRanges = [{ range: "192.168.002.000/24" }];
    assertEquals(await scene.add({ ipRanges, range: "192.168.001.000/24" }), [
      "192.168.1.1/24",
      "192.168.2.1/24",
    ]);
    const ends = { range: "192.168.003.005-192.168.003.025/24" };
    assertEquals(await scene.add(ends, { pod: "p2" }), ["192.168.3.5/24"]);
    const keys = { range: "192.168.4.0/24", range_start: "192.168.004.008" };
    assertEquals(await scene.add(keys, { pod: "p3" }), ["192.168.4.8/24"]);
  }),
  "a range start in another network": refuses(
    { range: "192.168.1.5-192.168.2.25/28" },
    "invalid range start for CIDR 192.168.2.16/28: 192.168.1.5",
  ),
  "a range start that is not an address": refuses(
    { range: "x-192.168.2.25/28" },
    "invalid range start IP: x",
  ),
  "a range end without a length": refuses(
    { range: "192.168.2.1-192.168.2.25" },
    "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) " +
      "'192.168.2.25'",
  ),
  "a range that is not a network": refuses(
    { range: "192.168.2.25" },
    "invalid CIDR 192.168.2.25",
  ),
  "a gateway that is not an address": refuses(
    { range: "10.0.0.0/24", gateway: "x" },
    "couldn't parse gateway IP: x",
  ),
  "a network name that no object can have": refuses(
    { range: "10.0.0.0/24", network_name: "Blue_1" },
    '"Blue_1" cannot be part of an object\'s name',
  ),
  "a kubeconfig without its context": inCluster(async (scene) => {
    scene.breakContext();
    const { code } = await scene.failure({ range: "10.0.0.0/24" });
    assertEquals(code, 7);
  }),
  "no pod name": inCluster(async (scene) => {
    const { code, msg } = await scene.failure({ range: "10.0.0.0/24" }, {
      pod: "",
    });
    assertEquals([code, msg], [
      4,
      "error at storage engine: IPAM client initialization error: no pod name",
    ]);
  }),
  "no ranges: only static addresses": inCluster(async (scene) => {
    const addresses = [{ address: "10.10.0.1/24" }];
    assertEquals(await scene.add({ addresses }), ["10.10.0.1/24"]);
    const args = "IP=10.11.0.1/24;GATEWAY=10.11.0.254";
    assertEquals(await scene.add({ addresses }, { args }), [
      "10.10.0.1/24",
      "10.11.0.1/24",
    ]);
    assertEquals(scene.names("ippools"), []);
  }),
  "a requested address of the range is taken from it": inCluster(
    async (scene) => {
      const ipam = {
        range: "10.0.0.5-10.0.0.20/24",
        ipRanges: [{ range: "fd00::/64" }],
      };
      const both = { args: "IP=10.0.0.9/24,fd00::9/64" };
      assertEquals(await scene.add(ipam, both), ["10.0.0.9/24", "fd00::9/64"]);
      const other = { args: "IP=10.0.0.9/24", pod: "p2", id: "c2" };
      const taken = await scene.failure(ipam, other);
      assertEquals([taken.code, taken.msg], [
        11,
        'error at storage engine: Cannot allocate the requested address 10.0.0.9: IPPool "10.0.0.0-24" has it for "test/p1"',
      ]);
      for (const ip of ["10.0.0.4", "10.0.0.255"]) {
        const { code, msg } = await scene.failure(ipam, {
          ...other,
          args: `IP=${ip}/24`,
        });
        assertEquals(code, 7);
        assertMatch(msg, /does not allocate it/);
      }
      const free = { ...other, args: "IP=10.0.0.10/24" };
      assertEquals(await scene.add(ipam, free), ["10.0.0.10/24", "fd00::1/64"]);
    },
  ),
  "old versions allow one address of each family": inCluster(
    async (scene) => {
      const conf = { cniVersion: "0.2.0" };
      const ipam = { range: "10.0.0.0/24" };
      const { json } = await scene.call("ADD", ipam, { conf });
      assertEquals(json.ip4, { ip: "10.0.0.1/24" });
      const two = { ...ipam, addresses: [{ address: "10.10.0.1/24" }] };
      const { msg } = await scene.failure(two, { conf, pod: "p2" });
      assertMatch(msg, /does not support more than 1 address per family/);
    },
  ),
});

conformance("whereabouts names", {
  "a range": inCluster(async (scene) => {
    await scene.add({ range: "10.0.0.0/8" });
    assertEquals(scene.names("ippools"), ["10.0.0.0-8"]);
    assertEquals(scene.reservations(), ["10.0.0.1"]);
  }),
  "a range of a named network": inCluster(async (scene) => {
    await scene.add({ range: "10.0.0.0/8", network_name: "test" });
    assertEquals(scene.names("ippools"), ["test-10.0.0.0-8"]);
    assertEquals(scene.reservations(), ["test-10.0.0.1"]);
  }),
  "a node's slice": inCluster(async (scene) => {
    putSlices(scene, "net", "10.0.0.0/8");
    const ipam = { range: "10.0.0.0/8", node_slice_size: "/8" };
    await scene.add(ipam, { env: { NODENAME: "testnode" } });
    assertEquals(scene.names("ippools"), ["testnode-10.0.0.0-8"]);
  }),
  "a node's slice of a named network": inCluster(async (scene) => {
    putSlices(scene, "testnetwork", "10.0.0.0/8");
    const ipam = {
      range: "10.0.0.0/8",
      node_slice_size: "8",
      network_name: "testnetwork",
    };
    await scene.add(ipam, { env: { NODENAME: "testnode" } });
    assertEquals(scene.names("ippools"), ["testnetwork-testnode-10.0.0.0-8"]);
  }),
  "an address that ends with a colon": inCluster(async (scene) => {
    const range = "2001:db8:5422:0005::-2001:db8:5422:5::9/60";
    assertEquals(await scene.add({ range }), ["2001:db8:5422:5::/60"]);
    assertEquals(scene.reservations(), ["2001-db8-5422-5--0"]);
  }),
  "an address that starts with a colon": inCluster(async (scene) => {
    await scene.add({ range: "::1/126" });
    assertEquals(scene.names("ippools"), ["0---126"]);
    assertEquals(scene.reservations(), ["0--1"]);
  }),
});

function putSlices(
  scene: WhereaboutsScene,
  name: string,
  ...slices: string[]
): void {
  scene.api.put("nodeslicepools", {
    metadata: { namespace: POOLS, name },
    spec: { range: "10.0.0.0/8", sliceSize: "/8" },
    status: {
      allocations: slices.map((sliceRange, index) => ({
        nodeName: index === 0 ? "testnode" : "",
        sliceRange,
      })),
    },
  });
}

conformance("whereabouts node slices", {
  "addresses come from the node's slice, with the range's length": inCluster(
    async (scene) => {
      putSlices(scene, "net", "10.0.64.0/26", "10.0.128.0/26");
      const ipam = { range: "10.0.0.0/16", node_slice_size: "/26" };
      const env = { NODENAME: "testnode" };
      assertEquals(await scene.add(ipam, { env }), ["10.0.64.1/16"]);
      assertEquals(scene.names("ippools"), ["testnode-10.0.64.0-26"]);
      assertEquals(
        Object.keys(scene.allocations("testnode-10.0.64.0-26") ?? {}),
        ["1"],
      );
      await scene.del(ipam, { env });
      assertEquals(scene.allocations("testnode-10.0.64.0-26"), {});
    },
  ),
  "range_start, range_end and exclude apply to slices": inCluster(
    async (scene) => {
      putSlices(scene, "net", "10.0.0.0/26");
      const ipam = {
        range: "10.0.0.0/16",
        range_start: "10.0.0.10",
        exclude: ["10.0.0.10/32"],
        node_slice_size: "/26",
      };
      const env = { NODENAME: "testnode" };
      assertEquals(await scene.add(ipam, { env }), ["10.0.0.11/16"]);
    },
  ),
  "ADD fails on a node without a slice": inCluster(async (scene) => {
    putSlices(scene, "net", "10.0.64.0/26");
    const ipam = { range: "10.0.0.0/16", node_slice_size: "/26" };
    const env = { NODENAME: "other" };
    const { code, msg } = await scene.failure(ipam, { env });
    assertEquals([code, msg], [
      11,
      'error at storage engine: no allocated node slice for node "other"',
    ]);
  }),
  "the node's name is in the flat file's directory": inCluster(
    async (scene) => {
      putSlices(scene, "net", "10.0.64.0/26");
      scene.write("nodename", "testnode\n");
      const path = scene.write("whereabouts.conf", {
        configuration_path: scene.directory.path,
      });
      const ipam = {
        configuration_path: path,
        range: "10.0.0.0/16",
        node_slice_size: "/26",
      };
      assertEquals(await scene.add(ipam), ["10.0.64.1/16"]);
    },
  ),
});
