/**
 * vrf, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/meta/vrf/vrf_test.go.
 */

import type { Link } from "../../ffi/rtnl/link.ts";
import { assertEquals } from "@std/assert";
import { isAtLeast, listVersionsFrom } from "../../cni/version.ts";
import { freeTable } from "../../plugins/vrf/vrf_link.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { needsVrf, VrfScene } from "../../plugins/vrf/testing.ts";
import type { Keys } from "../_harness/plugin_scene.ts";

const ETH1 = { ifName: "eth1" };

/** The result of a plugin that made an interface. */
function resultOf({ hosts }: VrfScene, name: string, ...ips: string[]): Keys {
  const interfaces = [{ name, sandbox: hosts.sandbox.path }];
  const addresses = ips.map((address) => ({ interface: 0, address }));
  return { cniVersion: "1.0.0", interfaces, ips: addresses };
}

/** Builds a row: both interfaces, each with an address and in a VRF. */
function bothIn(vrfs: [string, string], ips: [string, string]): Row {
  return async () => {
    const lines = ips.map((ip, at) => `address add ${ip} dev eth${at} nodad`);
    using scene = new VrfScene({}, lines);
    for (const [at, ip] of ips.entries()) {
      const ifName = `eth${at}`;
      const prevResult = resultOf(scene, ifName, ip);
      const keys = { vrfname: vrfs[at], prevResult };
      await scene.succeed("ADD", keys, { ifName });
    }
    const tables = vrfs[0] === vrfs[1]
      ? [`${vrfs[0]} 1`]
      : [`${vrfs[0]} 1`, `${vrfs[1]} 2`];
    assertEquals(scene.links, [
      `eth0 ${vrfs[0]}`,
      `eth1 ${vrfs[1]}`,
      ...tables,
    ]);
    const addresses = scene.state.filter((line) => / inet6? /.test(line))
      .map((line) => line.split(/ +/)[2]);
    assertEquals(addresses, ips);
  };
}

/** Builds a row: two interfaces in VRFs with given tables. */
function tablesOf(
  vrfs: [string, string],
  tables: [number, number],
  refusal?: string,
): Row {
  return async () => {
    using scene = new VrfScene({}, []);
    const first = { vrfname: vrfs[0], table: tables[0] };
    await scene.succeed("ADD", { ...first, prevResult: {} });
    assertEquals(scene.links.at(-1), `${vrfs[0]} ${tables[0]}`);
    const second = { vrfname: vrfs[1], table: tables[1], prevResult: {} };
    if (refusal === undefined) await scene.succeed("ADD", second, ETH1);
    else await scene.fail("ADD", [7, refusal], second, ETH1);
  };
}

const ROWS: Readonly<Record<string, Row>> = {
  "VRF-1 prevResult is passed on": async () => {
    using scene = new VrfScene({ vrfname: "vrf0" });
    const { prevResult } = scene;
    const { json } = await scene.succeed("ADD");
    assertEquals(json, prevResult);
  },

  "VRF-2 the VRF is created, and the interface is in it": async () => {
    using scene = new VrfScene({ vrfName: "vrf0" });
    await scene.succeed("ADD");
    assertEquals(scene.links, ["eth0 vrf0", "eth1", "vrf0 1"]);
  },

  "VRF-3 the interface's routes follow it": async () => {
    using scene = new VrfScene({ vrfname: "vrf0" });
    const before = scene.table("main").filter((line) => / eth0/.test(line));
    await scene.succeed("ADD");
    assertEquals(scene.table(1), before);
    assertEquals(scene.table(5000), ["10.3.0.0/16 via 10.0.0.7 dev eth0"]);
  },

  "VRF-4 other interfaces' routes stay": async () => {
    using scene = new VrfScene({ vrfname: "vrf1" });
    const { state } = scene;
    const prevResult = resultOf(scene, "eth1", "10.1.0.2/24");
    await scene.succeed("ADD", { prevResult }, ETH1);
    assertEquals(scene.table(1), [
      "10.1.0.0/24 dev eth1 proto kernel scope link src 10.1.0.2",
      "10.11.0.0/16 via 10.1.0.7 dev eth1",
    ]);
    const isOfEth0 = (line: string): boolean => / ?eth0/.test(line);
    assertEquals(scene.state.filter(isOfEth0), state.filter(isOfEth0));
  },

  "VRF-5 an interface with another master is refused": async () => {
    using scene = new VrfScene({ vrfname: "vrf0" });
    scene.ip("link add br0 type bridge", "link set eth0 master br0");
    const text = "interface eth0 has already a master set: br0";
    await scene.fail("ADD", [7, text]);
    assertEquals(scene.links, ["eth0 br0", "eth1", "br0"]);
  },

  "VRF-15 the VRF is deleted with its last interface": async () => {
    using scene = new VrfScene({ vrfname: "vrf0", prevResult: {} });
    await scene.succeed("ADD");
    await scene.succeed("ADD", {}, ETH1);
    assertEquals(scene.links, ["eth0 vrf0", "eth1 vrf0", "vrf0 1"]);
    await scene.succeed("DEL");
    assertEquals(scene.links, ["eth0", "eth1 vrf0", "vrf0 1"]);
    await scene.succeed("DEL", {}, ETH1);
    assertEquals(scene.links, ["eth0", "eth1"]);
  },
};

conformance("vrf", ROWS, allOf(needsRoot, needsVrf));

conformance("vrf tables", {
  "VRF-6 two interfaces in one VRF": bothIn(
    ["vrf0", "vrf0"],
    ["10.0.0.2/24", "10.0.0.3/24"],
  ),
  "VRF-7 two interfaces in two VRFs": bothIn(
    ["vrf0", "vrf1"],
    ["10.0.0.2/24", "10.0.0.3/24"],
  ),
  "VRF-8 two interfaces in two VRFs with one address": bothIn(
    ["vrf0", "vrf1"],
    ["10.0.0.2/24", "10.0.0.2/24"],
  ),
  "VRF-9 two interfaces in one VRF, IPv6": bothIn(
    ["vrf0", "vrf0"],
    ["2001:db8::75/64", "2001:db8::76/64"],
  ),
  "VRF-10 two interfaces in two VRFs, IPv6": bothIn(
    ["vrf0", "vrf1"],
    ["2001:db8::75/64", "2001:db8::76/64"],
  ),
  "VRF-11 two interfaces in two VRFs with one address, IPv6": bothIn(
    ["vrf0", "vrf1"],
    ["2001:db8::75/64", "2001:db8::75/64"],
  ),

  "VRF-12 one VRF, the same table": tablesOf(["vrf0", "vrf0"], [1001, 1001]),
  "VRF-13 two VRFs, the same table": tablesOf(["vrf0", "vrf1"], [1001, 1001]),
  "VRF-14 one VRF, another table is refused": tablesOf(
    ["vrf0", "vrf0"],
    [1001, 1002],
    "VRF vrf0 already exist with different routing table 1001",
  ),
}, allOf(needsRoot, needsVrf));

for (const cniVersion of listVersionsFrom("0.3.1")) {
  conformance("vrf", {
    [`VRF-16 ADD, CHECK and DEL, ${cniVersion}`]: async () => {
      using scene = new VrfScene({ cniVersion, vrfname: "vrf0" });
      const { state } = scene;
      const version = isAtLeast(cniVersion, "1.0.0") ? {} : { version: "4" };
      const given = resultOf(scene, "eth0");
      const ips = [{ ...version, address: "10.0.0.2/24", interface: 0 }];
      const prevResult = { ...given, cniVersion, ips };
      const { json } = await scene.succeed("ADD", { prevResult });
      // Older versions always have it.
      const { dns: _, ...result } = json;
      assertEquals(result, prevResult);
      const withResult = { prevResult: json };
      if (isAtLeast(cniVersion, "0.4.0")) {
        await scene.succeed("CHECK", withResult);
      }
      await scene.succeed("DEL", withResult);
      assertEquals(scene.state, state);
    },
  }, allOf(needsRoot, needsVrf));
}

/** Lists links whose tables these are; undefined for another kind. */
function linksWith(
  ...tables: (number | undefined)[]
): Pick<Link, "data">[] {
  return tables.map((table) => ({
    data: table === undefined ? undefined : { kind: "vrf", table },
  }));
}

conformance("vrf", {
  "VRF-17 the lowest free table is taken": () => {
    assertEquals(freeTable(linksWith(1, 2, 3, 5)), 4);
    assertEquals(freeTable(linksWith(1, 2, undefined, 5)), 3);
    assertEquals(freeTable([]), 1);
    const many = Array.from({ length: 999 }, (_, at) => at + 1);
    assertEquals(freeTable(linksWith(...many)), 1000);
    assertEquals(freeTable(linksWith(...many.slice(0, 252))), 256);
  },
});
