/**
 * What a namespace has, as iproute2 sees it: an oracle that is not our own code.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";

/**
 * Runs `ip -j ...` (or another program of iproute2) in a namespace.
 *
 * @param args For example `["-6", "route", "show", "table", "all"]`
 * @throws {Error} With what the program said if it failed
 */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
export function ipJson(netns: NetNs, ...args: string[]): any {
  const text = runIn(netns, "ip", "-j", "-d", ...args);
  return text.trim() === "" ? [] : JSON.parse(text);
}

/**
 * Runs a program in a namespace and returns what it printed.
 *
 * @throws {Error} With what the program said if it failed
 */
export function runIn(netns: NetNs, name: string, ...args: string[]): string {
  const { success, stdout, stderr } = inNetns(
    netns,
    () => new Deno.Command(name, { args }).outputSync(),
  );
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(
    `${name} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`,
  );
}

/** Says whether one address answers a ping from a namespace. */
export function canPing(netns: NetNs, address: string): boolean {
  try {
    runIn(netns, "ping", "-c", "1", "-W", "2", address);
    return true;
  } catch {
    return false;
  }
}

/** What a namespace has: links, addresses, routes and rules. */
export interface Snapshot {
  /** Links with their addresses. */
  readonly links: unknown;
  /** Routes of both families and all tables. */
  readonly routes: unknown;
  /** Policy rules of both families. */
  readonly rules: unknown;
}

/** How long the kernel may take to settle an address, in ms. */
const SETTLING_MS = 5000;

/**
 * Lists links with their addresses once none of these is being settled: even
 * without duplicate address detection the kernel does that a little later.
 */
function settledLinks(netns: NetNs): unknown {
  const deadline = Date.now() + SETTLING_MS;
  for (;;) {
    const links = withoutTimers(ipJson(netns, "address", "show"));
    const isSettled = !JSON.stringify(links).includes('"tentative":true');
    if (isSettled || Date.now() > deadline) return links;
  }
}

/** Leaves out what runs in bridges and their ports. */
function withoutTimers(links: unknown): unknown {
  return JSON.parse(
    JSON.stringify(links),
    (key, value) => key.endsWith("_timer") ? undefined : value,
  );
}

/** Takes stock of a namespace, without counters and timers. */
export function snapshot(netns: NetNs): Snapshot {
  return {
    links: settledLinks(netns),
    routes: [
      ...ipJson(netns, "-4", "route", "show", "table", "all"),
      ...ipJson(netns, "-6", "route", "show", "table", "all"),
    ],
    rules: [...ipJson(netns, "-4", "rule"), ...ipJson(netns, "-6", "rule")],
  };
}
