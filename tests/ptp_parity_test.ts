/**
 * ptp beside the Go plugin: what each leaves in the namespaces on the same
 * configuration. The differences that are meant are listed here, and nowhere
 * else is a difference allowed.
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import {
  goPlugin,
  ignoreUnless,
  requireRoot,
} from "./_harness/capabilities.ts";
import { ipJson } from "./_harness/ip_json.ts";
import { type CallOutput, TestHosts } from "./_harness/test_hosts.ts";

const GO = (goPlugin("ptp") ?? "").replace(/\/[^/]*$/, "");
const { ignore, suffix } = ignoreUnless(GO !== "", "needs the Go plugins");

function parity(name: string): { name: string; ignore: boolean } {
  const root = requireRoot(`${name}${suffix}`);
  return { name: root.name, ignore: root.ignore || ignore };
}

type Run = (command: string, config: unknown) => Promise<CallOutput>;

/** How either plugin is run. */
function runners(hosts: TestHosts): Record<"ours" | "go", Run> {
  return {
    ours: (command, config) => hosts.run("ptp", command, config),
    go: (command, config) => {
      const env = { CNI_PATH: GO };
      return Promise.resolve(
        hosts.exec(`${GO}/ptp`, command, config, { env }),
      );
    },
  };
}

const ROWS: [
  name: string,
  subnets: string[],
  routes: { dst: string; gw?: string }[],
][] = [
  ["IPv4", ["10.1.2.0/24"], [{ dst: "0.0.0.0/0" }]],
  ["IPv6", ["2001:db8:1::/64"], [{ dst: "::/0" }]],
  ["both families", ["10.1.2.0/24", "2001:db8:1::/64"], [
    { dst: "0.0.0.0/0" },
    { dst: "::/0" },
  ]],
  ["several routes", ["10.1.2.0/24"], [
    { dst: "192.168.0.0/16" },
    { dst: "1.2.3.4/32" },
    { dst: "172.16.0.0/12", gw: "10.1.2.1" },
  ]],
  ["no route", ["10.1.2.0/24"], []],
];

function configFor(
  hosts: TestHosts,
  [, subnets, routes]: typeof ROWS[number],
): Record<string, unknown> {
  return {
    cniVersion: "1.0.0",
    name: "net1",
    type: "ptp",
    mtu: 1400,
    ipam: { ...hosts.hostLocal(...subnets), routes },
  };
}

/** What a plugin did, without what differs from one run to the next. */
async function observe(
  run: Run,
  hosts: TestHosts,
  config: unknown,
): Promise<unknown> {
  const added = await run("ADD", config);
  assertEquals(added.exitCode, 0, added.stdout + added.stderr);
  return {
    result: withoutEmptyDns(
      added.stdout.replaceAll(hosts.sandbox.path, "SANDBOX")
        .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
        .replace(/veth[0-9a-f]+/g, "VETH"),
    ),
    host: stateOf(hosts.host),
    sandbox: stateOf(hosts.sandbox),
  };
}

/** Go plugins before 1.2 print `dns` though it is empty. */
function withoutEmptyDns(stdout: string): unknown {
  const { dns, ...result } = JSON.parse(stdout);
  return Object.keys(dns ?? {}).length === 0 ? result : { dns, ...result };
}

function stateOf(netns: NetNs): unknown {
  return { links: linksOf(netns), routes: routesOf(netns) };
}

/**
 * Links with their addresses.
 *
 * Differences that are meant: our addresses have `noprefixroute` (the kernel's
 * route to the prefix would have to be deleted again) and, for IPv6, `nodad`.
 */
function linksOf(netns: NetNs): unknown[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  return ipJson(netns, "address").filter(({ ifname }: any) => ifname !== "lo")
    // deno-lint-ignore no-explicit-any -- as above
    .map((link: any) => ({
      name: link.ifname.replace(/^veth.*/, "VETH"),
      mtu: link.mtu,
      kind: link.linkinfo.info_kind,
      isUp: link.flags.includes("UP"),
      addresses: link.addr_info
        .filter(({ scope }: { scope: string }) => scope === "global")
        .map(({ local, prefixlen, broadcast }: Record<string, unknown>) =>
          `${local}/${prefixlen} ${broadcast}`
        ).sort(),
    }));
}

/**
 * Routes of the main table, but the link-local ones.
 *
 * A difference that is meant: to the host's IPv6 gateway address the kernel
 * makes a route of its own, which `noprefixroute` does without; the address is
 * in the local table in any case.
 */
function routesOf(netns: NetNs): string[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  const format = (route: any): string =>
    [
      route.dst,
      route.gateway && `via ${route.gateway}`,
      `dev ${route.dev.replace(/^veth.*/, "VETH")}`,
      `scope ${route.scope}`,
      route.prefsrc && `src ${route.prefsrc}`,
      route.metric && `metric ${route.metric}`,
    ].filter(Boolean).join(" ");
  return [...ipJson(netns, "-4", "route"), ...ipJson(netns, "-6", "route")]
    .filter(({ protocol }) => protocol !== "kernel")
    .map(format).sort();
}

for (const row of ROWS) {
  Deno.test(
    parity(`ptp leaves what the Go plugin leaves: ${row[0]}`),
    async () => {
      const stateAfter = async (who: "ours" | "go"): Promise<unknown> => {
        using hosts = TestHosts.create();
        return await observe(runners(hosts)[who], hosts, configFor(hosts, row));
      };
      assertEquals(await stateAfter("ours"), await stateAfter("go"));
    },
  );
}

Deno.test(
  parity("ptp and the Go plugin detach what the other attached"),
  async (t) => {
    for (const [adder, deleter] of [["ours", "go"], ["go", "ours"]] as const) {
      await t.step(`${adder} adds, ${deleter} deletes`, async () => {
        using hosts = TestHosts.create();
        const config = configFor(hosts, ROWS[2] ?? ["", [], []]);
        const run = runners(hosts);
        const before = [stateOf(hosts.host), stateOf(hosts.sandbox)];
        const added = await run[adder]("ADD", config);
        assertEquals(added.exitCode, 0, added.stdout);
        const withResult = { ...config, prevResult: added.json };
        const checked = await run[deleter]("CHECK", withResult);
        assertEquals(checked.exitCode, 0, checked.stdout);
        const deleted = await run[deleter]("DEL", withResult);
        assertEquals(deleted.exitCode, 0, deleted.stdout);
        assertEquals([stateOf(hosts.host), stateOf(hosts.sandbox)], before);
        assertEquals(hosts.leases(), []);
      });
    }
  },
);
