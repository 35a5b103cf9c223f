/**
 * The state of a namespace in the output of iproute2 and in /proc, which is
 * independent of the code under test.
 *
 * @module
 */

import { ifPossible } from "../base/files/io.ts";
import { inNetns, type NetNs } from "../ffi/netns.ts";
import { NetlinkSocket, Protocol } from "../ffi/netlink/mod.ts";
import { AF_INET6 } from "../ffi/rtnl/constants.ts";
import { getRule, newRule } from "../ffi/rtnl/rule_message.ts";

/**
 * Runs `ip -j ...` (or another program of iproute2) in a namespace.
 *
 * @param args For example `["-6", "route", "show", "table", "all"]`
 * @throws {Error} With the program's stderr if it failed
 */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
export function ipJson(netns: NetNs, ...args: string[]): any {
  const text = runIn(netns, "ip", "-j", "-d", ...args);
  return text.trim() === "" ? [] : JSON.parse(text);
}

/**
 * Runs a program in a namespace and returns what it printed.
 *
 * @throws {Error} With the program's stderr if it failed
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

/**
 * Runs commands of `ip` or `tc` in a namespace, by one process: they are read
 * from a file, since a child that is waited for can have no pipe as its stdin.
 *
 * @param options For example `["-j", "-d"]`
 * @throws {Error} With the program's stderr if one failed
 */
export function batchIn(
  netns: NetNs,
  name: "ip" | "tc",
  options: readonly string[],
  commands: readonly string[],
): string {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, commands.join("\n"));
    return runIn(netns, name, ...options, "-batch", file);
  } finally {
    Deno.removeSync(file);
  }
}

/**
 * Reports whether an address replies to pings from a namespace within ten seconds: on a
 * busy machine, it can take seconds until a new IPv6 address answers.
 */
export function canPing(netns: NetNs, address: string): boolean {
  const args = ["-c1", "-i0.2", "-w10", address];
  return inNetns(netns, () => new Deno.Command("ping", { args }).outputSync())
    .success;
}

/**
 * Lists the addresses that reply to pings from a namespace. Pings run side by
 * side, since a missing reply takes the whole time. One reply is enough: the
 * kernel drops what arrives for an IPv6 address before it has a route to it,
 * which it adds in the background.
 *
 * @param seconds How long each address has for its reply
 */
export function findReached(
  netns: NetNs,
  addresses: readonly string[],
  seconds = 2,
): readonly string[] {
  const ping = `ping -c1 -i0.2 -w${seconds} "$address" > /dev/null 2>&1`;
  const script = `for address; do (${ping} && echo "$address") & done; wait`;
  const answered = runIn(netns, "sh", "-c", script, "sh", ...addresses)
    .split("\n");
  return addresses.filter((address) => answered.includes(address));
}

/** The state of a namespace: links, addresses, routes and rules. */
export interface Snapshot {
  /** Links with their addresses. */
  readonly links: unknown;
  /** Routes of both families and all tables. */
  readonly routes: unknown;
  /** Policy rules of both families. */
  readonly rules: unknown;
}

/** How long the kernel may take to settle an address, in ms. */
const SETTLING_MS = 15_000;

/** How long to wait before the next look, at first and at most, in ms. */
const PAUSE_MS = 5, MOST_PAUSE_MS = 100;

/** Prints all of a namespace but the rules of IPv6, a document each. */
const SNAPSHOT_COMMANDS = [
  "address show",
  "route show table all",
  "rule",
  "neighbor show nud permanent",
];

/** A snapshot, and the permanent neighbor entries. */
export interface SnapshotWithNeighbors extends Snapshot {
  readonly neighbors: readonly Readonly<Record<string, unknown>>[];
}

/**
 * Captures the state of a namespace, without counters and timers, once all of its
 * addresses are settled: even without duplicate address detection the kernel does
 * that a little later.
 */
export function snapshot(netns: NetNs): Snapshot {
  const { links, routes, rules } = snapshotWithNeighbors(netns);
  return { links, routes, rules };
}

/** Takes stock of a namespace, as {@linkcode snapshot}. */
export function snapshotWithNeighbors(netns: NetNs): SnapshotWithNeighbors {
  const deadline = Date.now() + SETTLING_MS;
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  let pauseMs = PAUSE_MS;
  for (;;) {
    const now = snapshotNow(netns);
    if (isSettled(now) || Date.now() > deadline) return now;
    // A look takes several processes: it leaves the processor to others.
    Atomics.wait(nobody, 0, 0, pauseMs);
    pauseMs = Math.min(2 * pauseMs, MOST_PAUSE_MS);
  }
}

function snapshotNow(netns: NetNs): SnapshotWithNeighbors {
  const [addresses, routes, rules4, neighbors] = batchIn(
    netns,
    "ip",
    ["-j", "-d"],
    SNAPSHOT_COMMANDS,
  ).split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  if (neighbors === undefined) throw new Error("ip printed too little");
  return {
    links: withoutTimers(addresses),
    routes,
    rules: [
      ...rules4,
      ...JSON.parse(printRules6(netns, ["-j", "-d"]).trim() || "[]"),
    ],
    neighbors,
  };
}

/** What `ip` printed, by all that the kernel says of the rules: it is nearly always the same. */
const printedRules = new Map<string, string>();

/**
 * Prints the rules of IPv6, for which {@linkcode batchIn} has no command.
 *
 * @param options For example `["-j", "-d"]`
 */
export function printRules6(
  netns: NetNs,
  options: readonly string[],
): string {
  const print = (): string => runIn(netns, "ip", "-6", ...options, "rule");
  const had = ifPossible(() => {
    using socket = NetlinkSocket.open(netns, Protocol.Route);
    const request = { header: { family: AF_INET6 } };
    const rules = socket.dump(getRule, request, newRule);
    return JSON.stringify([options, rules]);
  });
  if (had === undefined) return print();
  const printed = printedRules.get(had) ?? print();
  printedRules.set(had, printed);
  return printed;
}

/** The route to an address of its own comes after the address is no longer tentative. */
function isSettled(snapshot: Snapshot): boolean {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  const { links, routes } = snapshot as { links: any[]; routes: any[] };
  const own = routes.filter(({ type }) => type === "local")
    .map(({ dst, dev }) => `${dst} ${dev}`);
  return links.every(({ ifname, flags, addr_info }) =>
    // deno-lint-ignore no-explicit-any -- as above
    addr_info.every(({ family, local, tentative, dadfailed }: any) =>
      !tentative &&
      (family !== "inet6" || dadfailed || !flags.includes("LOWER_UP") ||
        own.includes(`${local} ${ifname}`))
    )
  );
}

/** Leaves out what runs in bridges and their ports. */
function withoutTimers(links: unknown): unknown {
  return JSON.parse(
    JSON.stringify(links),
    (key, value) => key.endsWith("_timer") ? undefined : value,
  );
}

/** Takes stock of a host and its sandbox. */
export function stockOf(
  { host, sandbox }: { readonly host: NetNs; readonly sandbox: NetNs },
): Snapshot[] {
  return [snapshot(host), snapshot(sandbox)];
}

/** Lists the names of a namespace's links. */
export function linkNames(netns: NetNs): string[] {
  const text = inNetns(
    netns,
    () => Deno.readTextFileSync("/proc/thread-self/net/dev"),
  );
  return [...text.matchAll(/^ *(\S+):/gm)].map(([, name = ""]) => name);
}
