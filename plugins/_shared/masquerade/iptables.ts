/**
 * Masquerading by the `iptables` and `ip6tables` programs, for hosts whose
 * other rules are kept with them.
 *
 * In table nat, for each attachment:
 *
 * ```
 * -N CNI-<hash of network and container>
 * -A CNI-<hash> -d 10.1.2.5/24 -j ACCEPT
 * -A CNI-<hash> ! -d 224.0.0.0/4 -j MASQUERADE
 * -A POSTROUTING -s 10.1.2.5 -j CNI-<hash>
 * ```
 *
 * all with the comment `name: "<network>" id: "<container>"`. Chains, rules and
 * comments are the Go plugins', so that each removes what the other has added.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_iptables_linux.go.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import type { Cidr } from "../../../net/cidr.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import type { MasqueradeNames } from "./names.ts";

/** How long to wait for another program that changes rules, in seconds. */
const LOCK_WAIT_SECONDS = 20;
/** Where the programs are if PATH does not lead to them. */
const FOLDERS = ["", "/usr/sbin/", "/sbin/", "/usr/local/sbin/"] as const;
/** What is not masqueraded, since it does not leave the link. */
const MULTICAST: Readonly<Record<IpFamily, string>> = {
  4: "224.0.0.0/4",
  6: "ff00::/8",
};
const PREFIXES: Readonly<Record<IpFamily, string>> = {
  4: "iptables",
  6: "ip6tables",
};

/** The two ways in which rules of iptables are in the kernel. */
export type Variant = "nft" | "legacy";

/** The programs of one family, in one namespace. */
export interface Iptables {
  readonly netns: NetNs;
  readonly family: IpFamily;
  /** Whichever the administrator prefers if undefined. */
  readonly variant?: Variant | undefined;
}

/** How a program ended. */
interface Ended {
  readonly success: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Masquerades what leaves the addresses for other places than their subnets.
 *
 * @param addresses All of the family
 * @throws {Error} With what the program said
 */
export async function addIptablesMasquerade(
  iptables: Iptables,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<void> {
  const rules = rulesOf(iptables, names, addresses);
  // One run for the chain and all its rules, which fails as a whole if an
  // earlier attachment has left the chain, or another interface shares it.
  const first = await restore(iptables, [
    `-N ${names.chain}`,
    ...append(rules),
  ]);
  if (first.success) return;
  const chain = await run(iptables, ["-S", names.chain]);
  if (!chain.success) throw failureOf(iptables, first);
  const postrouting = await run(iptables, ["-S", "POSTROUTING"]);
  const present = (chain.stdout + postrouting.stdout).split("\n");
  const missing = append(rules).filter((rule) =>
    !present.some((line) => isSameRule(line, rule))
  );
  const second = await restore(iptables, missing);
  if (!second.success) throw failureOf(iptables, second);
}

/**
 * Removes an attachment's rules, and its chain unless another interface of the
 * container still uses it.
 *
 * @param addresses Those that it is known to have; all of the chain's if none
 * @throws {Error} With what the program said
 */
export async function delIptablesMasquerade(
  iptables: Iptables,
  { chain }: MasqueradeNames,
  addresses: readonly Ip[] | undefined,
): Promise<void> {
  const there = await run(iptables, ["-S", chain]);
  if (!there.success) return;
  const listed = await run(iptables, ["-S", "POSTROUTING"]);
  const leading = listed.stdout.split("\n")
    .filter((line) => line.includes(`-j ${chain}`));
  const own = leading.filter((line) => isFromOneOf(line, addresses ?? []));
  const isShared = own.length < leading.length;
  const changes = [
    ...own.map((line) => line.replace("-A", "-D")),
    ...isShared ? [] : [`-F ${chain}`, `-X ${chain}`],
  ];
  const ended = await restore(iptables, changes);
  if (ended.success) return;
  // Another tear-down of the same attachment may have been faster.
  const left = await run(iptables, ["-S", chain]);
  if (left.success) throw failureOf(iptables, ended);
}

/** Lists the containers that have rules for a network, by their comments. */
export async function listIptablesContainers(
  iptables: Iptables,
  network: string,
): Promise<string[]> {
  const { stdout } = await run(iptables, ["-S", "POSTROUTING"]);
  const own = `name: "${network}" id: "`;
  const ids = stdout.replaceAll('\\"', '"').split("\n").flatMap((line) => {
    const [, rest] = line.split(own);
    const [id = ""] = rest?.split('"') ?? [];
    return id === "" ? [] : [id];
  });
  return [...new Set(ids)];
}

/** Finds a rule of the addresses that is not there. */
export async function findMissingRule(
  iptables: Iptables,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<string | undefined> {
  for (const rule of rulesOf(iptables, names, addresses)) {
    const { success } = await run(iptables, ["-C", ...splitRule(rule)]);
    if (!success) return rule;
  }
  return undefined;
}

/**
 * Says whether the programs can be used.
 *
 * @returns What is in the way; undefined for nothing
 */
export async function findIptablesProblem(
  iptables: Iptables,
): Promise<string | undefined> {
  try {
    const ended = await run(iptables, ["-S", "POSTROUTING"]);
    return ended.success ? undefined : failureOf(iptables, ended).message;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function rulesOf(
  { family }: Iptables,
  { chain, iptablesComment }: MasqueradeNames,
  addresses: readonly Cidr[],
): string[] {
  const comment = `-m comment --comment ${quote(iptablesComment)}`;
  return addresses.flatMap((address) => [
    `${chain} -d ${address.masked()} ${comment} -j ACCEPT`,
    `${chain} ! -d ${MULTICAST[family]} ${comment} -j MASQUERADE`,
    `POSTROUTING -s ${address.ip}${
      family === 4 ? "/32" : "/128"
    } ${comment} -j ${chain}`,
  ]).filter((rule, index, all) => all.indexOf(rule) === index);
}

function append(rules: readonly string[]): string[] {
  return rules.map((rule) => `-A ${rule}`);
}

/** Quotes as iptables-restore reads it, and as `iptables -S` prints it. */
function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** Splits a rule into arguments, as iptables-restore does. */
function splitRule(rule: string): string[] {
  return (rule.match(/"(?:\\.|[^"\\])*"|\S+/g) ?? []).map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll(/\\(.)/g, "$1") : part
  );
}

/** Compares a rule that is listed with one that is to be, by its parts. */
function isSameRule(listed: string, rule: string): boolean {
  const [left, right] = [listed, rule].map((text) =>
    splitRule(text).sort().join("\0")
  );
  return left === right;
}

function isFromOneOf(
  line: string,
  addresses: readonly Ip[],
): boolean {
  if (addresses.length === 0) return true;
  const source = / -s ([^ /]+)/.exec(line)?.[1];
  return addresses.some((address) => address.toString() === source);
}

function run(iptables: Iptables, args: readonly string[]): Promise<Ended> {
  return execute(iptables, "", [
    "-w",
    String(LOCK_WAIT_SECONDS),
    "-t",
    "nat",
    ...args,
  ]);
}

/** Makes changes to table nat, all or none. */
function restore(
  iptables: Iptables,
  changes: readonly string[],
): Promise<Ended> {
  const args = ["--noflush", `--wait=${LOCK_WAIT_SECONDS}`];
  const stdin = ["*nat", ...changes, "COMMIT", ""].join("\n");
  return execute(iptables, "-restore", args, stdin);
}

/**
 * @param suffix Of the program's name
 * @throws {Error} If there is no such program
 */
async function execute(
  iptables: Iptables,
  suffix: string,
  args: readonly string[],
  stdin = "",
): Promise<Ended> {
  const child = start(iptables, suffix, args);
  const writer = child.stdin.getWriter();
  const [output] = await Promise.all([
    child.output(),
    writer.write(new TextEncoder().encode(stdin)).then(() => writer.close()),
  ]);
  const decoder = new TextDecoder();
  return {
    success: output.success,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

/** Starts a program inside the namespace; it stays there. */
function start(
  iptables: Iptables,
  suffix: string,
  args: readonly string[],
): Deno.ChildProcess {
  for (const path of pathsOf(iptables, suffix)) {
    try {
      return inNetns(iptables.netns, () =>
        new Deno.Command(path, {
          args: [...args],
          stdin: "piped",
          stdout: "piped",
          stderr: "piped",
        }).spawn());
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  throw new Error(`Cannot find "${PREFIXES[iptables.family]}${suffix}"`);
}

/** Lists the programs to try; one whose variant is not installed under its own name is the default. */
function pathsOf({ family, variant }: Iptables, suffix: string): string[] {
  const names = [
    ...variant === undefined ? [] : [`${PREFIXES[family]}-${variant}${suffix}`],
    `${PREFIXES[family]}${suffix}`,
  ];
  return names.flatMap((name) => FOLDERS.map((folder) => folder + name));
}

function failureOf({ family }: Iptables, { stderr }: Ended): Error {
  const why = stderr.trim().split("\n").join("; ");
  return new Error(`${PREFIXES[family]}: ${why || "it failed without a word"}`);
}
