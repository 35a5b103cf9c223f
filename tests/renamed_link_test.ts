/**
 * DEL finds the interface whatever
 * its container has made of its name, MAC and alias: no address is released
 * while a link still has it.
 */

import { assertEquals } from "@std/assert";
import { firstNameOf } from "../plugins/parts/link/sandbox_link.ts";
import { aliasOf } from "../plugins/parts/owner/attachment.ts";
import { stableName } from "../plugins/parts/owner/stable_name.ts";
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

const CONTAINER = "test-container";
const OWNER = { network: "net1", containerId: CONTAINER, ifName: "eth0" };

/** What a container with CAP_NET_ADMIN can do, as scripts in it. */
const HOSTILE: readonly [name: string, script: string][] = [
  [
    "lo has the name of an unfinished interface",
    `ip link set lo down; ip link set lo name ${firstNameOf(OWNER)}`,
  ],
  [
    "lo has the interface's name",
    `ip link set eth0 down; ip link set eth0 name wan
     ip link set lo down; ip link set lo name eth0`,
  ],
  ["lo has the attachment's alias", `ip link set lo alias ${aliasOf(OWNER)}`],
  [
    "lo has alternative names",
    `ip link set eth0 down; ip link set eth0 name wan
     ip link property add dev lo altname eth0 altname ${firstNameOf(OWNER)}`,
  ],
  [
    "lo has the name of bandwidth's IFB",
    `ip link set lo down
     ip link set lo name ${stableName("bwp", "net1", CONTAINER, "eth0")}`,
  ],
  [
    "names that are no text",
    `ip link set eth0 down; ip link set eth0 name $(printf '\\377')
     ip link set lo alias $(printf '\\377\\376')`,
  ],
  [
    "another link in its place",
    `ip link set eth0 down; ip link set eth0 name wan
     ip link add eth0 link wan type macvlan || ip link add eth0 type veth`,
  ],
  [
    "a bridge and a link above it",
    // Not with ipvlan.
    `ip link add br9 type bridge; ip link set eth0 master br9 || true
     ip link add link eth0 name up9 type macvlan || true`,
  ],
  ["one group", "ip link set eth0 group 7; ip link set lo group 7"],
  [
    "other routes, rules and queues",
    `ip nexthop add id 9 blackhole || true
     ip rule add from 10.1.2.2 ipproto udp lookup 100
     ip route add blackhole default table 100 metric 7
     ip route add 10.7.0.0/16 nhid 9 table 100 || true
     tc qdisc del dev eth0 root || true
     tc qdisc add dev eth0 clsact || true`,
  ],
];

for (const { type, ...keys } of TYPES) {
  rootTest(
    `${type}.del() and its chained plugins succeed, whatever the container did`,
    needsLinks(type),
    async (t) => {
      await eachRow(t, HOSTILE, async ([, script]) => {
        using scene = new PluginScene(type, (hosts) => ({
          cniVersion: "1.1.0",
          name: "net1",
          type,
          ipam: hosts.hostLocal("10.1.2.0/24"),
          ...keys,
        }));
        const { hosts } = scene;
        const pair = "ip link add eth9 type veth; ip link set eth9 up";
        runIn(hosts.host, "sh", "-ec", pair);
        const outside = linkNames(hosts.host);
        const chain: Keys[] = [
          scene.config,
          { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
          { type: "sbr" },
          ...type === "tap" || type === "dummy" ||
              needsLinks("bandwidth").ignore
            ? []
            : [{ type: "bandwidth", egressRate: 8000, egressBurst: 80000 }],
          { type: "loopback" },
        ];
        let prevResult: unknown;
        const run = async (command: string, keys: Keys): Promise<unknown> => {
          const called = String(keys["type"]);
          const config = { ...scene.config, ipam: undefined, ...keys };
          const { exitCode, json, stdout } = await hosts.run(called, command, {
            ...config,
            ...prevResult !== undefined && { prevResult },
          });
          assertEquals(exitCode, 0, `${called} ${command} ${stdout}`);
          return json;
        };
        for (const keys of chain) prevResult = await run("ADD", keys);
        runIn(hosts.sandbox, "sh", "-ec", script);
        for (const keys of chain.toReversed()) await run("DEL", keys);
        const has = runIn(hosts.sandbox, "ip", "-4", "address");
        assertEquals([has.includes("10.1.2.2"), hosts.leases()], [false, []]);
        const left = linkNames(hosts.host).filter((name) => name !== "br0");
        assertEquals(left, outside);
      });
    },
  );
}
