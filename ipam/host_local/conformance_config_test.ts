/**
 * How host-local reads its configuration and its other inputs: the rows CF, RG,
 * RS, RC and LK of the conformance list.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { readCmdArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import { emptyDns } from "../../cni/result/result.ts";
import { FileLock } from "../../base/files/lock.ts";
import { rangeSetsOf, requestedIpsOf } from "./config.ts";
import { findRange, type Range, rangeContains } from "./range.ts";
import { parseResolvConf } from "./resolv_conf.ts";
import { type HostLocalConfig, hostLocalSchema } from "./schema.ts";
import { LeaseStore } from "./store.ts";
import { Ip } from "../../net/ip.ts";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { conformance } from "../../tests/_harness/conformance.ts";
import {
  assertFailure,
  DataDirectory,
  runInProcess as run,
} from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";

function decodeConfig(config: JsonObject): HostLocalConfig {
  return decode(hostLocalSchema(), config, "network configuration");
}

/** Lists the sets as `start-end gateway`. */
function resolve(config: JsonObject, cniVersion = "1.1.0"): string[][] {
  return rangeSetsOf(decodeConfig(config), cniVersion).map((set) =>
    set.map(({ start, end, gateway }) => `${start}-${end} ${gateway}`)
  );
}

function resolveRange(range: JsonObject): Range {
  const [[only] = []] = rangeSetsOf(decodeConfig({ ipam: range }), "1.1.0");
  assert(only !== undefined);
  return only;
}

function assertRefused(
  config: JsonObject,
  message: string,
  cniVersion = "1.1.0",
): void {
  const error = assertThrows(() => resolve(config, cniVersion), CniError);
  assertEquals(error.message, message);
  assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
}

function sets(...sets: string[][]): JsonObject {
  const ranges = sets.map((set) => set.map((subnet) => ({ subnet })));
  return { ipam: { ranges } };
}

/** Lists the addresses that a configuration and CNI_ARGS request. */
function requested(config: JsonObject, cniArgs = ""): string[] {
  const args = readCmdArgs("STATUS", { CNI_PATH: "/x", CNI_ARGS: cniArgs });
  return requestedIpsOf(decodeConfig(config), args).map(String);
}

const BOUNDS = { rangeStart: "10.1.2.9", rangeEnd: "10.1.2.20" };

conformance("host-local", {
  "CF-1: a single range is one set": () => {
    const range = { subnet: "10.1.2.0/24", ...BOUNDS, gateway: "10.1.2.30" };
    assertEquals(resolve({ ipam: range }), [["10.1.2.9-10.1.2.20 10.1.2.30"]]);
  },

  "CF-2: ranges keep given values, and have defaults for the rest": () => {
    const ranges = [
      [{ subnet: "10.1.2.0/24", ...BOUNDS, gateway: "10.1.2.30" }, {
        subnet: "10.1.4.0/24",
      }],
      [{ subnet: "11.1.2.0/24", rangeStart: "11.1.2.9" }],
    ];
    assertEquals(resolve({ ipam: { ranges } }), [
      ["10.1.2.9-10.1.2.20 10.1.2.30", "10.1.4.1-10.1.4.254 10.1.4.1"],
      ["11.1.2.9-11.1.2.254 11.1.2.1"],
    ]);
  },

  "CF-3: the order of the sets is runtimeConfig, subnet, ranges": () => {
    const config = {
      ipam: { subnet: "10.1.2.0/24", ranges: [[{ subnet: "10.1.3.0/24" }]] },
      runtimeConfig: {
        ipRanges: [[{ subnet: "10.1.1.0/24" }], [{ subnet: "::/64" }]],
      },
    };
    assertEquals(
      resolve(config).map(([range]) => range?.split("-")[0]),
      ["10.1.1.1", "::1", "10.1.2.1", "10.1.3.1"],
    );
  },

  "CF-4: CNI_ARGS asks for an address, with or without a prefix": () => {
    assertEquals(requested({}, "IP=10.1.2.10"), ["10.1.2.10"]);
    assertEquals(requested({}, "IP=10.1.2.11/24"), ["10.1.2.11"]);
  },

  "CF-5: args.cni.ips requests more addresses": () => {
    const ips = ["10.1.2.11", "11.11.11.11/24", "2001:db8:1::11", "::2/64"];
    assertEquals(requested({ args: { cni: { ips } } }, "IP=10.1.2.10"), [
      "10.1.2.10",
      "10.1.2.11",
      "11.11.11.11",
      "2001:db8:1::11",
      "::2",
    ]);
  },

  "CF-6: runtimeConfig.ips requests addresses": () => {
    const ips = ["192.168.0.1", "192.168.0.5/24", "2001:db8::1/64"];
    assertEquals(requested({ runtimeConfig: { ips } }), [
      "192.168.0.1",
      "192.168.0.5",
      "2001:db8::1",
    ]);
  },

  "CF-7: sets may not overlap": () => {
    const config = sets(["10.1.2.0/24"], ["10.1.0.0/16"]);
    assertRefused(config, "range set 0 overlaps with 1");
  },

  "CF-8: ranges of a set may not overlap": () => {
    assertRefused(
      sets(["10.1.0.0/22", "10.1.2.0/24"]),
      "invalid range set 0: subnets 10.1.0.1-10.1.3.254 and " +
        "10.1.2.1-10.1.2.254 overlap",
    );
  },

  "CF-9: a set is of one family": () => {
    const config = sets(["10.1.0.0/22", "2001:db8:5::/64"]);
    assertRefused(config, "invalid range set 0: mixed address families");
  },

  "CF-10: version 0.2.0 allows one set of each family": () => {
    assertRefused(
      sets(["10.1.2.0/24"], ["10.2.2.0/24"]),
      "CNI version 0.2.0 does not support more than 1 address per family",
      "0.2.0",
    );
  },

  "CF-11: version 0.2.0 allows a set of each family together": () => {
    const config = sets(["10.1.2.0/24"], ["2001:db8:1::/64"]);
    assertEquals(resolve(config, "0.2.0").length, 2);
  },

  "RG-1: a range begins and ends where the subnet has hosts": () => {
    const rows = {
      "192.0.2.0/24": "192.0.2.1-192.0.2.254 192.0.2.1",
      "192.0.2.0/25": "192.0.2.1-192.0.2.126 192.0.2.1",
      "2001:db8:1::/64":
        "2001:db8:1::1-2001:db8:1:0:ffff:ffff:ffff:ffff 2001:db8:1::1",
    };
    for (const [subnet, want] of Object.entries(rows)) {
      assertEquals(resolve({ ipam: { subnet } }), [[want]]);
    }
  },

  "RG-2: start, end and gateway are kept": () => {
    const ipam = {
      subnet: "192.0.2.0/24",
      rangeStart: "192.0.2.40",
      rangeEnd: "192.0.2.50",
      gateway: "192.0.2.254",
    };
    assertEquals(resolve({ ipam }), [["192.0.2.40-192.0.2.50 192.0.2.254"]]);
  },

  "RG-3: a subnet with host bits is refused": () => {
    const rows: [subnet: string, length: number, network: string][] = [
      ["192.0.2.12/24", 24, "192.0.2.0"],
      ["2001:db8:24:19ff::c44a/64", 64, "2001:db8:24:19ff::"],
      ["2001:DB8:24:19ff::/63", 63, "2001:db8:24:19fe::"],
      ["192.168.127.0/23", 23, "192.168.126.0"],
      ["192.0.2.1/31", 31, "192.0.2.0"],
    ];
    for (const [subnet, length, network] of rows) {
      assertRefused(
        { ipam: { subnet } },
        "invalid range set 0: Network has host bits set. For a subnet mask " +
          `of length ${length} the network address is ${network}`,
      );
    }
  },

  // Which Go's refuses: "Network 192.0.2.0/31 too small to allocate from".
  "RG-4: the smallest subnets can be allocated from": async (t) => {
    const rows: [subnet: string, address: string, gateway?: string][] = [
      ["192.0.2.0/31", "192.0.2.1/31", "192.0.2.0"],
      ["192.0.2.7/32", "192.0.2.7/32"],
      ["2001:db8::/127", "2001:db8::1/127", "2001:db8::"],
      ["2001:db8::7/128", "2001:db8::7/128"],
    ];
    await eachRow(t, rows, async ([subnet, address, gateway]) => {
      using directory = new DataDirectory();
      const config = directory.config({ subnet });
      const { json } = await run("ADD", config);
      const want = gateway === undefined ? {} : { gateway };
      assertEquals(json.ips, [{ address, ...want }]);
      assertFailure(
        await run("ADD", config, { CNI_CONTAINERID: "other" }),
        11,
        "failed to allocate for range 0: no IP addresses available in " +
          `range set: ${resolve({ ipam: { subnet } })[0]?.[0]?.split(" ")[0]}`,
      );
    });
  },

  "RG-5: bounds outside the subnet or out of order fail": () => {
    const rows: [range: JsonObject, problem: string][] = [
      [{ rangeStart: "192.0.3.0" }, "RangeStart 192.0.3.0"],
      [{ rangeEnd: "192.0.4.0" }, "RangeEnd 192.0.4.0"],
      [
        { rangeStart: "192.0.2.50", rangeEnd: "192.0.2.40" },
        "RangeStart 192.0.2.50",
      ],
    ];
    for (const [range, problem] of rows) {
      assertRefused(
        { ipam: { subnet: "192.0.2.0/24", ...range } },
        `invalid range set 0: ${problem} not in network 192.0.2.0/24`,
      );
    }
  },

  "RG-6: a range contains both its ends": () => {
    for (const prefix of ["192.0.2.", "2001:db8:1::"]) {
      const range = resolveRange({
        subnet: prefix.includes(":") ? `${prefix}/64` : `${prefix}0/24`,
        rangeStart: `${prefix}40`,
        rangeEnd: `${prefix}50`,
      });
      const isIn = (last: string): boolean =>
        rangeContains(range, Ip.parse(`${prefix}${last}`));
      assertEquals(["39", "40", "45", "50", "51"].map(isIn), [
        false,
        true,
        true,
        true,
        false,
      ]);
    }
  },

  "RG-7: overlaps are found from both sides": () => {
    const low = { subnet: "10.1.1.0/24", rangeEnd: "10.1.1.127" };
    const rows: [left: JsonObject, right: JsonObject, overlap: boolean][] = [
      [{ subnet: "10.1.1.0/24" }, { subnet: "10.1.2.0/24" }, false],
      [{ subnet: "0.0.0.0/24" }, { subnet: "::/24" }, false],
      [{ subnet: "10.1.1.0/24" }, { subnet: "10.1.1.0/24" }, true],
      [{ subnet: "10.1.0.0/20" }, { subnet: "10.1.1.0/24" }, true],
      [{ subnet: "2001:db8::/64" }, { subnet: "2001:db8::/120" }, true],
      [low, { subnet: "10.1.1.0/24", rangeStart: "10.1.1.128" }, false],
      [low, { subnet: "10.1.1.0/24", rangeStart: "10.1.1.127" }, true],
    ];
    for (const [left, right, overlap] of rows) {
      for (const ranges of [[[left], [right]], [[right], [left]]]) {
        const config = { ipam: { ranges } };
        if (overlap) assertRefused(config, "range set 0 overlaps with 1");
        else assertEquals(resolve(config).length, 2);
      }
    }
  },

  "RS-1: at most one range of a set contains an address": async () => {
    const config = sets(["192.168.0.0/24", "172.16.1.0/24"]);
    const [set = []] = rangeSetsOf(decodeConfig(config), "1.1.0");
    assertEquals(findRange(set, Ip.parse("192.168.0.99")), set[0]);
    assertEquals(findRange(set, Ip.parse("172.16.1.1")), set[1]);
    assertEquals(findRange(set, Ip.parse("192.168.99.99")), undefined);
    // No set is asked for an address that none has, so Go's text is the other.
    using directory = new DataDirectory();
    const output = await run(
      "ADD",
      directory.config(config["ipam"] as JsonObject),
      { CNI_ARGS: "IP=192.168.99.99" },
    );
    const left = "failed to allocate all requested IPs: 192.168.99.99";
    assertFailure(output, 7, left);
  },

  "RS-3: an overlap of any range of a set is found": () => {
    assertRefused(
      sets(["10.1.0.0/24"], ["10.2.0.0/24", "10.3.0.0/24"], ["10.3.0.128/25"]),
      "range set 1 overlaps with 2",
    );
  },

  "RC-1: nameservers, domain and search list are read": () => {
    assertEquals(
      parseResolvConf("nameserver 192.0.2.0\ndomain a.test\nsearch b.test c\n"),
      {
        ...emptyDns(),
        nameservers: ["192.0.2.0"],
        domain: "a.test",
        search: ["b.test", "c"],
      },
    );
  },

  "RC-2: comments are ignored": () => {
    assertEquals(
      parseResolvConf("; nameserver 1.1.1.1\n#search x\nnameserver 2.2.2.2"),
      { ...emptyDns(), nameservers: ["2.2.2.2"] },
    );
  },

  "RC-3: repeated lines are joined, except the domain": () => {
    const lines = [
      "nameserver 1.1.1.1",
      "nameserver 2.2.2.2",
      "search a b",
      "search c",
      "options ndots:5",
      "options rotate edns0",
      "domain first",
      "domain last",
    ];
    assertEquals(parseResolvConf(lines.join("\n")), {
      nameservers: ["1.1.1.1", "2.2.2.2"],
      search: ["a", "b", "c"],
      options: ["ndots:5", "rotate", "edns0"],
      domain: "last",
    });
  },
});

/** Asks flock(1), as any other program would, whether a file is locked. */
function isLocked(path: string): boolean {
  const args = ["--nonblock", path, "true"];
  return !new Deno.Command("flock", { args }).outputSync().success;
}

conformance("host-local", {
  "LK-1: a file is locked by its path": async () => {
    using directory = new DataDirectory();
    const path = directory.write("file", "");
    const lock = await FileLock.acquire(path, 0o600);
    assert(isLocked(path));
    lock[Symbol.dispose]();
    assert(!isLocked(path));
  },

  "LK-2: a directory is locked by its file named lock": async () => {
    using directory = new DataDirectory();
    const path = `${directory.directoryOf()}/lock`;
    const store = await LeaseStore.open(directory.path, "mynet");
    assert(isLocked(path));
    store[Symbol.dispose]();
    assert(!isLocked(path));
  },
}, ignoreUnless(hasCommand("flock"), "needs flock"));
