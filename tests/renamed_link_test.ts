/**
 * DEL finds the interface whatever
 * its container has made of its name, MAC and alias: no address is released
 * while a link still has it.
 */

import { assertEquals } from "@std/assert";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../testing/capabilities.ts";
import { linkNames, runIn } from "../testing/ip_json.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { listPeers, nameOf } from "./_harness/parity.ts";
import { type Keys, PluginScene } from "./_harness/plugin_scene.ts";
import { eachRow } from "./_harness/table.ts";

const MASTER = { master: "eth9" };
const TYPES: readonly (Keys & { readonly type: string })[] = [
  { type: "macvlan", ...MASTER },
  { type: "ipvlan", ...MASTER },
  { type: "vlan", ...MASTER, vlanId: 7 },
  { type: "dummy" },
  { type: "tap" },
  { type: "ptp" },
  { type: "bridge", bridge: "br0", isGateway: true },
];

const NEW_MAC = "address 02:00:00:00:00:99";
const CHANGES: readonly [name: string, commands: string[], types?: RegExp][] = [
  ["another name", ["down", "name wan"]],
  ["another MAC", [NEW_MAC], /macvlan|dummy|tap|ptp|bridge/],
  [
    "another MAC and name",
    ["down", `${NEW_MAC} name wan`],
    /macvlan|dummy|tap|ptp|bridge/,
  ],
  ["no alias, another name", ["down", "name wan", "alias "]],
];

for (const { type, ...keys } of TYPES) {
  const peers = listPeers("renamed links");
  for (const who of ["ours" as const, ...peers]) {
    const hasPlugin = who === "ours" ||
      isExecutable(`${who.directory}/${type}`);
    const needs = allOf(
      needsLinks(type),
      ignoreUnless(hasPlugin, `needs ${type} of ${nameOf(who)}`),
    );
    rootTest(
      `${type}.del() finds an interface of ${
        nameOf(who)
      } that its container has changed`,
      needs,
      async (t) => {
        const rows = CHANGES.filter(([, , types]) => types?.test(type) ?? true);
        await eachRow(t, rows, async ([, commands]) => {
          using scene = new PluginScene(type, (hosts) => ({
            cniVersion: who === "ours" ? "1.1.0" : who.cniVersion,
            name: "net1",
            type,
            ipam: hosts.hostLocal("10.1.2.0/24"),
            ...keys,
          }));
          const { hosts } = scene;
          const pair = "link add eth9 type veth peer name up9";
          runIn(hosts.host, "ip", ...pair.split(" "));
          runIn(hosts.host, "ip", "link", "set", "eth9", "up");
          const { json: prevResult } = await scene.run("ADD", {}, { who });
          let name = "eth0";
          for (const command of commands) {
            const words = command === "alias "
              ? ["alias", ""]
              : command.split(" ");
            runIn(hosts.sandbox, "ip", "link", "set", name, ...words);
            name = /name (\w+)/.exec(command)?.[1] ?? name;
          }
          // A DEL of another attachment leaves it alone.
          const other = { ...prevResult, ips: [], interfaces: [] };
          await scene.run("DEL", { name: "net2", prevResult: other });
          assertEquals(linkNames(hosts.sandbox), ["lo", name]);
          await scene.succeed("DEL", { prevResult });
          assertEquals([linkNames(hosts.sandbox), hosts.leases()], [
            ["lo"],
            [],
          ]);
        });
      },
    );
  }
}
