/**
 * Compares our plugins with Go's: what each leaves for the same configuration.
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
  rootTest,
} from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { eventually } from "./eventually.ts";
import { findPeers, type Peer } from "./peers.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";

/** The owner of a plugin; `go` is the peer that `goPlugin()` finds. */
export type Who = "ours" | "go" | Peer;

/** The MAC of configurations that ask for one: it does not differ. */
export const ASKED_MAC = "c2:11:22:33:44:55";

/** Skips what compares with a plugin of Go. */
export function needsGo(type: string): Needs {
  return ignoreUnless(goPlugin(type) !== undefined, "needs the Go plugins");
}

/**
 * Returns the peers to compare with. For each one that is not there it
 * registers a test that is skipped.
 *
 * @param subject What is compared, as the beginning of the test's name
 */
export function listPeers(subject: string): readonly Peer[] {
  const { peers, absent } = findPeers();
  for (const { name, needs } of absent) {
    const skip = ignoreUnless(false, needs);
    const test = `${subject} beside ${name}${skip.suffix}`;
    Deno.test({ name: test, ignore: true, fn: () => {} });
  }
  return peers;
}

/** Returns the directory of a peer's plugins. */
function directoryOf(who: Exclude<Who, "ours">, type: string): string {
  return who === "go" ? dirname(goPlugin(type) ?? "") : who.directory;
}

/** Returns its name in test names. */
export function nameOf(who: Who): string {
  return typeof who === "string" ? who : who.name;
}

/** A call of a plugin. */
export interface PluginCall {
  readonly type: string;
  readonly command: string;
  readonly config: unknown;
}

/** Runs a plugin of either side; Go's plugins find Go's IPAM. */
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
  const directory = directoryOf(who, type);
  const env = { CNI_PATH: directory, ...options.env };
  return hosts.exec(`${directory}/${type}`, command, config, {
    ...options,
    env,
  });
}

/**
 * Ends duplicate address detection on interfaces to come. Go's plugins wait for
 * it, a second and more, and nothing that is compared depends on it.
 */
function withoutDetection(netns: NetNs): void {
  const key = "net/ipv6/conf/default/accept_dad";
  inNetns(netns, () => writeSysctl(key, "0"));
}

/** Runs a plugin that must succeed; Go's may log to stderr. */
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
 * @param subject The plugin, and the special part of its configuration
 * @param observe Returns the state that one leaves, without intended differences
 */
export function testLeavesTheSame(
  peer: Peer,
  [type, name]: readonly [type: string, name: string],
  observe: (who: Who) => Promise<unknown>,
): void {
  rootTest(
    `${type} leaves what the Go plugin leaves: ${name} (${peer.name})`,
    async () => assertEquals(await observe("ours"), await observe(peer)),
  );
}

/** Returns a result without values that differ between runs. */
export function normaliseResult(
  stdout: string,
  { sandbox }: TestHosts,
): Readonly<Record<string, unknown>> {
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
 * @param isMeant Selects the routes to compare; all if undefined
 */
export async function observeNetns(
  netns: NetNs,
  isMeant: (route: Route) => boolean = () => true,
): Promise<{ readonly links: unknown[]; readonly routes: string[] }> {
  await eventually(
    "the states of links follow their carriers",
    () => ipJson(netns, "link").every(hasItsState),
  );
  const routes: Route[] = ["-4", "-6"].flatMap((family) =>
    ipJson(netns, family, "route")
  );
  return {
    links: linksOf(netns),
    routes: routes.filter(isMeant).map(formatRoute)
      .filter((route) => !route.startsWith("fe80::")).sort(),
  };
}

/**
 * Reports whether the kernel has noticed a link's carrier, which it does later.
 *
 * Source: net/core/link_watch.c `linkwatch_event`.
 */
// deno-lint-ignore no-explicit-any -- as iproute2 prints it
function hasItsState({ flags, operstate }: any): boolean {
  return operstate !== "DOWN" || !flags.includes("LOWER_UP");
}

/** An intended difference: our IPv6 addresses have `nodad`. */
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
