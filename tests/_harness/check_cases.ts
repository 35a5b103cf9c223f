/**
 * CHECK of plugins that attach with a veth pair: changes that it must report, or accept.
 *
 * @module
 */

import {
  assertEquals,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { assertFailure, assertSuccess } from "./call_outcome.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { Keys, PluginScene } from "./plugin_scene.ts";
import { rulesOf } from "./rules.ts";

/**
 * A change by another program. The command runs in a shell,
 * where `$VETH` is the host end and `$LEASES` a directory. CHECK
 * must report all of the texts; without a text it must pass.
 */
export type Change = readonly [
  name: string,
  where: "host" | "sandbox",
  command: string,
  ...texts: readonly string[],
];

/**
 * Changes of any attachment that has 10.1.2.2/24 and 2001:db8:1::2/64, default
 * routes over the first addresses of these subnets, and leases.
 */
export const CHANGES: readonly Change[] = [
  ["no interface", "sandbox", "ip link del eth0", '"eth0" no longer exists'],
  ["interface down", "sandbox", "ip link set eth0 down", '"eth0" is down'],
  [
    "another MAC",
    "sandbox",
    "ip link set eth0 address 02:00:00:00:00:01",
    "has MAC 02:00:00:00:00:01",
  ],
  [
    "no IPv4 address",
    "sandbox",
    "ip addr del 10.1.2.2/24 dev eth0",
    "lacks address 10.1.2.2/24",
  ],
  [
    "no IPv6 address",
    "sandbox",
    "ip addr del 2001:db8:1::2/64 dev eth0",
    "lacks address 2001:db8:1::2/64",
  ],
  [
    "another prefix length",
    "sandbox",
    "ip addr del 10.1.2.2/24 dev eth0; ip addr add 10.1.2.2/16 dev eth0",
    "lacks address 10.1.2.2/24",
  ],
  [
    "no default route",
    "sandbox",
    "ip route del default",
    "lacks route 0.0.0.0/0 via 10.1.2.1",
  ],
  [
    "no IPv6 default route",
    "sandbox",
    "ip -6 route del default",
    "lacks route ::/0 via 2001:db8:1::1",
  ],
  ["host's end down", "host", "ip link set $VETH down", "is down"],
  [
    "no IPv4 forwarding",
    "host",
    "sysctl -qw net.ipv4.ip_forward=0",
    "IPv4 forwarding is off",
  ],
  [
    "no IPv6 forwarding",
    "host",
    "sysctl -qw net.ipv6.conf.all.forwarding=0",
    "IPv6 forwarding is off",
  ],
  ["no lease", "host", "rm $LEASES/net1/10.1.2.2", "Failed to find address"],
  [
    "interface down, and no IPv4 address",
    "sandbox",
    "ip link set eth0 down; ip addr del 10.1.2.2/24 dev eth0",
    '"eth0" is down',
    "lacks address 10.1.2.2/24",
    "lacks route 0.0.0.0/0 via 10.1.2.1",
  ],
  [
    "another MAC, down, and no IPv4 address",
    "sandbox",
    "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:01; ip addr del 10.1.2.2/24 dev eth0",
    "has MAC 02:00:00:00:00:01",
    '"eth0" is down',
    "lacks address 10.1.2.2/24",
  ],
  [
    "host's end down, and no forwarding",
    "host",
    "ip link set $VETH down; sysctl -qw net.ipv4.ip_forward=0",
    "is down",
    "IPv4 forwarding is off",
  ],
];

/** Makes a change of an attachment with this result. */
function change(
  { hosts }: PluginScene,
  { interfaces }: Result,
  [_what, where, command]: Change,
): void {
  const name = interfaces.map(({ name }) => name)
    .find((name) => name.startsWith("veth")) ?? "";
  const script = `VETH=${name}; LEASES=${hosts.directory}/leases; ${command}`;
  runIn(hosts[where], "sh", "-ec", script);
}

/**
 * Runs REPAIR after each of the changes that CHECK notices, each on a new
 * attachment: all is as before, and nothing is there twice.
 *
 * @param beyond Changes that REPAIR cannot undo
 */
export async function repairAfterChanges(
  t: Deno.TestContext,
  makeScene: () => PluginScene,
  changes: readonly Change[],
  beyond: readonly string[],
): Promise<void> {
  for (const one of changes) {
    const [what, where, _command, ...texts] = one;
    if (texts.length === 0) continue;
    await t.step(what, async () => {
      using scene = makeScene();
      const { host } = scene.hosts;
      const { json: prevResult } = await scene.succeed("ADD");
      const before = rulesOf(host);
      change(scene, prevResult, one);
      const repair = async (inside: boolean): Promise<Keys> => {
        const env = { CNI_REPAIR_SANDBOX: inside ? "1" : "" };
        return (await scene.succeed("REPAIR", { prevResult }, { env })).json;
      };
      if (where === "sandbox") {
        assertNotEquals((await repair(false))["remaining"], []);
      }
      const { repaired, remaining } = await repair(where === "sandbox");
      if (beyond.includes(what)) return assertNotEquals(remaining, []);
      assertEquals(remaining, []);
      for (const text of texts) assertStringIncludes(`${repaired}`, text);
      await scene.succeed("CHECK", { prevResult });
      assertEquals(rulesOf(host).toSorted(), before.toSorted());
      assertEquals((await repair(true))["repaired"], []);
      await scene.succeed("DEL", { prevResult });
    });
  }
}

/** Runs CHECK after each of the changes, each on a new attachment. */
export async function checkAfterChanges(
  t: Deno.TestContext,
  makeScene: () => PluginScene,
  changes: readonly Change[],
): Promise<void> {
  for (const one of changes) {
    const [what, _where, _command, ...texts] = one;
    await t.step(what, async () => {
      using scene = makeScene();
      const { json: prevResult } = await scene.succeed("ADD");
      await scene.succeed("CHECK", { prevResult });
      change(scene, prevResult, one);
      const checked = await scene.run("CHECK", { prevResult });
      if (texts.length === 0) assertSuccess(checked);
      for (const text of texts) assertFailure(checked, 999, text);
    });
  }
}

/** A prevResult, and what CHECK says of it; nothing if undefined. */
export type PrevResultRow = readonly [string, unknown, string | undefined];

/**
 * Runs CHECK with the result of an ADD, changed in several ways.
 *
 * @param own Returns changes that only this plugin's result may have
 */
export async function checkPrevResults(
  t: Deno.TestContext,
  scene: PluginScene,
  own: (result: Result) => readonly PrevResultRow[],
): Promise<void> {
  const { json } = await scene.succeed("ADD");
  for (
    const [name, prevResult, text] of [...rowsOf(scene, json), ...own(json)]
  ) {
    await t.step(name, async () => {
      const checked = await scene.run("CHECK", { prevResult });
      if (text === undefined) return assertSuccess(checked);
      assertEquals(checked.exitCode, 1);
      assertStringIncludes(checked.json.msg, text);
    });
  }
}

/** The part of ADD's result that is changed here. */
export interface Result {
  readonly interfaces: readonly {
    readonly name: string;
    readonly mac: string;
    readonly sandbox?: string;
  }[];
  readonly ips: readonly Keys[];
  readonly routes: readonly Keys[];
}

function rowsOf({ hosts }: PluginScene, result: Result): PrevResultRow[] {
  const { interfaces, ips, routes } = result;
  const { path } = hosts.sandbox;
  const other = hosts.addNetns();
  const alias = `${hosts.directory}/alias`;
  Deno.symlinkSync(path, alias);
  const withEnd = (change: (mac: string) => Keys): unknown => ({
    ...result,
    interfaces: interfaces.map((link) =>
      link.sandbox === undefined ? link : { ...link, ...change(link.mac) }
    ),
  });
  return [
    ["no interfaces", { ...result, interfaces: [] }, "no interface"],
    [
      "another sandbox",
      withEnd(() => ({ sandbox: other.path })),
      "doesn't match configured netns",
    ],
    [
      "the same sandbox under another path",
      withEnd(() => ({ sandbox: alias })),
      undefined,
    ],
    [
      "a MAC in upper case",
      withEnd((mac) => ({ mac: mac.toUpperCase() })),
      undefined,
    ],
    ["addresses of other interfaces", {
      ...result,
      interfaces: [...interfaces, { name: "eth1", sandbox: path }],
      ips: [...ips, { address: "192.0.2.1/24", interface: interfaces.length }],
      routes: [...routes, { dst: "198.51.100.0/24", gw: "192.0.2.9" }],
    }, undefined],
  ];
}
