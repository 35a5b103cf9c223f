/**
 * Our plugins beside those of Go: what each leaves on the same configuration.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { dirname } from "@std/path/posix";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import {
  goPlugin,
  ignoreUnless,
  type Needs,
  requireRoot,
} from "./capabilities.ts";
import { ipJson } from "./ip_json.ts";
import type { Keys } from "./plugin_scene.ts";
import { type CallOptions, type CallOutput, TestHosts } from "./test_hosts.ts";

/** Whose plugin it is. */
export type Who = "ours" | "go";

/** Who adds, and who checks and deletes. */
const BOTH_WAYS: readonly (readonly [adder: Who, other: Who])[] = [
  ["ours", "go"],
  ["go", "ours"],
];

/** The MAC of configurations that ask for one: it does not differ. */
export const ASKED_MAC = "c2:11:22:33:44:55";

/** Skips what compares with a plugin of Go. */
export function needsGo(type: string): Needs {
  return ignoreUnless(goPlugin(type) !== undefined, "needs the Go plugins");
}

/** A call of a plugin. */
export interface PluginCall {
  readonly type: string;
  readonly command: string;
  readonly config: unknown;
}

/** Runs a plugin of either side; those of Go find Go's. */
export async function callAs(
  who: Who,
  hosts: TestHosts,
  { type, command, config }: PluginCall,
  options: CallOptions = {},
): Promise<CallOutput> {
  if (who === "ours") return await hosts.run(type, command, config, options);
  for (const netns of [hosts.host, options.sandbox ?? hosts.sandbox]) {
    withoutDetection(netns);
  }
  const path = goPlugin(type) ?? "";
  const env = { CNI_PATH: dirname(path), ...options.env };
  return hosts.exec(path, command, config, { ...options, env });
}

/**
 * Ends duplicate address detection on interfaces to come. Go's plugins wait for
 * it, a second and more, and nothing that is compared depends on it.
 */
function withoutDetection(netns: NetNs): void {
  const key = "net/ipv6/conf/default/accept_dad";
  inNetns(netns, () => writeSysctl(key, "0"));
}

/** Runs a plugin that must succeed; Go's tell their story on stderr. */
export async function succeedAs(
  who: Who,
  hosts: TestHosts,
  call: PluginCall,
  options: CallOptions = {},
): Promise<CallOutput> {
  const output = await callAs(who, hosts, call, options);
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

/**
 * Registers a test that each side leaves the same.
 *
 * @param observe Returns what one leaves, without what is meant to differ
 */
export function testLeavesTheSame(
  type: string,
  name: string,
  observe: (who: Who) => Promise<unknown>,
): void {
  Deno.test(
    requireRoot(
      `${type} leaves what the Go plugin leaves: ${name}`,
      needsGo(type),
    ),
    async () => assertEquals(await observe("ours"), await observe("go")),
  );
}

/** An attachment that one side makes and the other ends. */
export interface Shared {
  readonly type: string;
  readonly makeConfig: (hosts: TestHosts) => Keys;
  /** Asserts that nothing is left, leases aside. */
  readonly assertDetached: (hosts: TestHosts) => void;
}

/**
 * Has each side add what the other checks and deletes.
 *
 * @param prefix The beginning of the steps' names
 */
export async function shareBothWays(
  t: Deno.TestContext,
  prefix: string,
  { type, makeConfig, assertDetached }: Shared,
): Promise<void> {
  for (const [adder, other] of BOTH_WAYS) {
    const name = `${prefix}${adder} adds, ${other} checks and deletes`;
    await t.step(name, async () => {
      using hosts = TestHosts.create();
      const config = makeConfig(hosts);
      const call = { type, command: "ADD", config };
      const { json } = await succeedAs(adder, hosts, call);
      for (const command of ["CHECK", "DEL"]) {
        const withResult = { ...config, prevResult: json };
        await succeedAs(other, hosts, { type, command, config: withResult });
      }
      assertDetached(hosts);
      assertEquals(hosts.leases(), []);
    });
  }
}

/** Returns a result without what differs from one run to the next. */
export function normaliseResult(stdout: string, { sandbox }: TestHosts): Keys {
  const { dns, ...result } = JSON.parse(
    stdout.replaceAll(sandbox.path, "SANDBOX")
      .replace(
        /([0-9a-f]{2}:){5}[0-9a-f]{2}/g,
        (mac) => mac === ASKED_MAC ? mac : "MAC",
      )
      .replace(/veth[0-9a-f]+/g, "VETH"),
  );
  // Go plugins before 1.2 print `dns` though it is empty.
  return Object.keys(dns ?? {}).length === 0 ? result : { dns, ...result };
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Route = any;

/**
 * Lists links and routes of the main table, but the link-local ones.
 *
 * @param isMeant Says which routes are compared; all if undefined
 */
export function observeNetns(
  netns: NetNs,
  isMeant: (route: Route) => boolean = () => true,
): { readonly links: unknown[]; readonly routes: string[] } {
  const routes: Route[] = ["-4", "-6"].flatMap((family) =>
    ipJson(netns, family, "route")
  );
  return {
    links: linksOf(netns),
    routes: routes.filter(isMeant).map(formatRoute)
      .filter((route) => !route.startsWith("fe80::")).sort(),
  };
}

/** A difference that is meant: our IPv6 addresses have `nodad`. */
function linksOf(netns: NetNs): unknown[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  return ipJson(netns, "address").filter(({ ifname }: any) => ifname !== "lo")
    // deno-lint-ignore no-explicit-any -- as above
    .map((link: any) => ({
      name: withoutHash(link.ifname),
      mtu: link.mtu,
      kind: link.linkinfo.info_kind,
      flags: ["UP", "PROMISC"].filter((flag) => link.flags.includes(flag)),
      state: link.operstate,
      master: link.master,
      hairpin: link.linkinfo.info_slave_data?.hairpin,
      hasAskedMac: link.address === ASKED_MAC,
      addresses: link.addr_info
        .filter(({ scope }: { scope: string }) => scope === "global")
        .map(({ local, prefixlen, broadcast }: Record<string, unknown>) =>
          `${local}/${prefixlen} ${broadcast}`
        ).sort(),
    }));
}

function formatRoute(route: Route): string {
  return [
    route.dst,
    route.gateway && `via ${route.gateway}`,
    `dev ${withoutHash(route.dev)}`,
    `scope ${route.scope}`,
    `protocol ${route.protocol}`,
    route.prefsrc && `src ${route.prefsrc}`,
    route.metric && `metric ${route.metric}`,
  ].filter(Boolean).join(" ");
}

function withoutHash(name: string): string {
  return name.replace(/^veth.*/, "VETH");
}
