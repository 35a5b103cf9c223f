import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  ETH0,
  IPV6,
  type ListedIp,
  NET1,
} from "../../tests/_harness/two_networks.ts";

/**
 * Default routes of net1 in table main, and in its address's table after ADD.
 */
const DEFAULTS: [
  name: string,
  given: { lines: string[]; keys: Keys & { ips: readonly ListedIp[] } },
  defaults: string[],
][] = [
  ["the address's gateway", { lines: [], keys: { ips: [IP4] } }, [
    "default via 192.168.1.1 dev net1",
  ]],
  ["none", { lines: [], keys: { ips: [{ address: IP4.address }] } }, []],
  ["the interface's own", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default via 192.168.1.7 dev net1 metric 5"]],
  ["the interface's own instead of the address's gateway", {
    lines: ["route replace default via 192.168.1.7 dev net1"],
    keys: { ips: [IP4] },
  }, ["default via 192.168.1.7 dev net1"]],
  ["the interface's own behind the address's gateway", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [IP4] },
  }, [
    "default via 192.168.1.1 dev net1",
    "default via 192.168.1.7 dev net1 metric 5",
  ]],
  ["gateways instead of all others", {
    lines: ["route add default via 192.168.1.7 dev net1 metric 5"],
    keys: { ips: [IP4], gateways: ["192.168.1.254"] },
  }, ["default via 192.168.1.254 dev net1 metric 5"]],
  ["gateways of the other family", {
    lines: [],
    keys: { ips: [IP4], gateways: ["2001:db8:1::254"] },
  }, ["default via 192.168.1.1 dev net1"]],
  ["one that does not leave through a router", {
    lines: ["route add default dev net1 scope link metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default dev net1 scope link metric 5"]],
  ["one through a router that nothing else says is on the link", {
    lines: ["route add default via 192.0.2.1 dev net1 onlink metric 5"],
    keys: { ips: [{ address: IP4.address }] },
  }, ["default via 192.0.2.1 dev net1 metric 5 onlink"]],
  ["such a router within the subnet, to which no route leads", {
    lines: [
      "route flush dev net1",
      "route add default via 192.168.1.1 dev net1 onlink",
    ],
    keys: { ips: [IP4] },
  }, ["default via 192.168.1.1 dev net1 onlink"]],
  ["such a router as the address's gateway", {
    lines: ["route add default via 192.0.2.1 dev net1 onlink metric 5"],
    keys: { ips: [{ address: IP4.address, gateway: "192.0.2.1" }] },
  }, [
    "default via 192.0.2.1 dev net1 onlink",
    "default via 192.0.2.1 dev net1 metric 5 onlink",
  ]],
  ["none, nor any other route", {
    lines: ["route flush dev net1"],
    keys: { ips: [{ address: "192.168.1.209/32" }] },
  }, []],
  ["none for a gateway of the other family", {
    lines: [],
    keys: { ips: [{ address: IP4.address, gateway: IP6.gateway }] },
  }, []],
  ["IPv6", { lines: [], keys: { ips: [IP6] } }, [
    "default via 2001:db8:1::1 dev net1 metric 1024",
  ]],
  ["IPv6 through a link-local router", {
    lines: ["route add default via fe80::9 dev net1 metric 7"],
    keys: { ips: [{ address: IP6.address }] },
  }, ["default via fe80::9 dev net1 metric 7"]],
  ["IPv6 through a router that has advertised itself", {
    lines: ["route add default via fe80::9 dev net1 metric 7 proto ra"],
    keys: { ips: [{ address: IP6.address }] },
  }, ["default via fe80::9 dev net1 proto ra metric 7"]],
  ["IPv6 by gateways, link-local", {
    lines: ["route add default via 2001:db8:1::7 dev net1 metric 7"],
    keys: { ips: [IP6], gateways: ["fe80::9"] },
  }, ["default via fe80::9 dev net1 metric 7"]],
];

rootTest("sbr.add() finds the default route of a table", async (t) => {
  await eachRow(t, DEFAULTS, async ([, { lines, keys }, defaults]) => {
    using scene = new SbrScene(
      [
        ...ETH0.filter((line) => !line.includes("default")),
        ...NET1,
        ...IPV6.filter((line) => !line.includes("default")),
        ...lines,
      ],
      keys,
    );
    await scene.succeed("ADD");
    const found = scene.table("100")
      .filter((line) => line.startsWith("default"));
    assertEquals(found, defaults);
    await scene.succeed("CHECK");
    await scene.succeed("DEL");
    assertEquals(scene.table("100"), []);
  });
});
