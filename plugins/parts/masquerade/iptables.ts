/**
 * Masquerades by running `iptables` and `ip6tables`, for hosts that have the
 * legacy variant or a program of unknown variant. The rules are the same as in
 * `iptables_nft.ts`.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_iptables_linux.go.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import type { Cidr } from "../../../net/cidr.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import { BackendMissing } from "./find_iptables.ts";
import { containerIn, type MasqueradeNames, MULTICAST } from "./names.ts";

/** How long to wait for another program's lock on the rules, in seconds. */
const LOCK_WAIT_SECONDS = 20;

/** The program for one family in one namespace. */
export interface Iptables {
  readonly netns: NetNs;
  readonly family: IpFamily;
  /** The program's path. */
  readonly path: string;
}

/**
 * Exit codes of a program that does not work at all: the kernel lacks its
 * tables, or its libraries are missing.
 *
 * Source: iptables include/xtables.h `VERSION_PROBLEM`; ld.so(8).
 */
const UNUSABLE: readonly number[] = [3, 126, 127];
/** Source: iptables include/xtables.h `OTHER_PROBLEM`, which includes a missing chain. */
const OTHER_PROBLEM = 1;

/** How a program ended. */
interface Ended {
  readonly success: boolean;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Masquerades packets from the addresses to destinations outside their subnets.
 *
 * @param addresses Of the program's family
 * @throws {Error} With the program's output
 */
export async function addIptablesMasquerade(
  iptables: Iptables,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<void> {
  const rules = rulesOf(iptables, names, addresses);
  // One run adds the chain and all rules. It fails as a whole if the chain
  // exists: an earlier attachment left it, or another interface shares it.
  const first = await restore(iptables, [
    `-N ${names.chain}`,
    ...rules.map(addition),
  ]);
  if (first.success) return;
  const chain = await run(iptables, ["-S", names.chain]);
  if (!chain.success) {
    const isUnusable = UNUSABLE.includes(chain.code);
    throw failureOf(iptables, isUnusable ? chain : first);
  }
  const postrouting = await run(iptables, ["-S", "POSTROUTING"]);
  if (!postrouting.success) throw failureOf(iptables, postrouting);
  const present = (chain.stdout + postrouting.stdout).split("\n");
  const missing = rules.filter((rule) =>
    !present.some((line) => isSameRule(line, `-A ${rule}`))
  );
  const second = await restore(iptables, missing.map(addition));
  if (!second.success) throw failureOf(iptables, second);
}

/**
 * Removes an attachment's rules, and its chain unless another interface of the
 * container still uses it.
 *
 * @param addresses The attachment's addresses, if known; otherwise all of the
 * chain's
 * @throws {Error} With the program's output
 */
export async function delIptablesMasquerade(
  iptables: Iptables,
  { chain }: MasqueradeNames,
  addresses: readonly Ip[] | undefined,
): Promise<void> {
  const there = await run(iptables, ["-S", chain]);
  if (there.code === OTHER_PROBLEM) return;
  if (!there.success) throw failureOf(iptables, there);
  const listed = await run(iptables, ["-S", "POSTROUTING"]);
  if (!listed.success) throw failureOf(iptables, listed);
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
  // Another DEL of the same attachment may have been faster.
  const left = await run(iptables, ["-S", chain]);
  if (left.code !== OTHER_PROBLEM) throw failureOf(iptables, ended);
}

/** Lists the containers that have rules for a network, by their comments. */
export async function listIptablesContainers(
  iptables: Iptables,
  network: string,
): Promise<string[]> {
  const listed = await run(iptables, ["-S", "POSTROUTING"]);
  if (!listed.success) throw failureOf(iptables, listed);
  const ids = listed.stdout.split("\n").flatMap((line) => {
    const parts = splitRule(line);
    const comment = parts[parts.indexOf("--comment") + 1] ?? "";
    return containerIn(comment, network) ?? [];
  });
  return ids;
}

/** Lists the addresses that are not masqueraded for the attachment. */
export async function listIptablesUnmasqueraded(
  iptables: Iptables,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<Cidr[]> {
  const missing: Cidr[] = [];
  for (const address of addresses) {
    for (const rule of rulesOf(iptables, names, [address])) {
      const { success } = await run(iptables, ["-C", ...splitRule(rule)]);
      if (success) continue;
      missing.push(address);
      break;
    }
  }
  return missing;
}

/**
 * Checks that the program works.
 *
 * @throws {Error} With the program's output
 */
export async function tryIptablesProgram(iptables: Iptables): Promise<void> {
  const ended = await run(iptables, ["-S", "POSTROUTING"]);
  if (!ended.success) throw failureOf(iptables, ended);
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

/**
 * Returns the command that adds a rule. Rules that spare subnets come before
 * the one that masquerades.
 */
function addition(rule: string): string {
  return `${rule.endsWith(" ACCEPT") ? "-I" : "-A"} ${rule}`;
}

/** Quotes a text as iptables-restore reads it and `iptables -S` prints it. */
function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** Splits a rule into arguments, as iptables-restore does. */
function splitRule(rule: string): string[] {
  return (rule.match(/"(?:\\.|[^"\\])*"|\S+/g) ?? []).map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll(/\\(.)/g, "$1") : part
  );
}

/** Reports whether a listed rule equals a wanted one, by their arguments. */
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

/** Changes table nat, all or nothing. */
function restore(
  iptables: Iptables,
  changes: readonly string[],
): Promise<Ended> {
  const args = ["--noflush", `--wait=${LOCK_WAIT_SECONDS}`];
  const stdin = ["*nat", ...changes, "COMMIT", ""].join("\n");
  return execute(iptables, "-restore", args, stdin);
}

/**
 * @param suffix Suffix of the program's name
 * @throws {BackendMissing} If the program cannot be started
 */
async function execute(
  { netns, path }: Iptables,
  suffix: string,
  args: readonly string[],
  stdin = "",
): Promise<Ended> {
  const child = start(netns, path + suffix, args);
  const writer = child.stdin.getWriter();
  const [output] = await Promise.all([
    child.output(),
    // If the program does not read its input, its exit status says why.
    writer.write(new TextEncoder().encode(stdin)).then(() => writer.close())
      .catch(() => {}),
  ]);
  const decoder = new TextDecoder();
  return {
    success: output.success,
    code: output.code,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

/** Starts a program inside the namespace. */
function start(
  netns: NetNs,
  path: string,
  args: readonly string[],
): Deno.ChildProcess {
  try {
    return inNetns(netns, () =>
      new Deno.Command(path, {
        args: [...args],
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn());
  } catch (error) {
    if (!isUnstartable(error)) throw error;
    throw new BackendMissing(`Cannot start "${path}"`, { cause: error });
  }
}

/** Reports whether a program can never be started, however often it is retried. */
function isUnstartable(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.PermissionDenied ||
    error instanceof Error && "code" in error && error.code === "ENOEXEC";
}

function failureOf({ path }: Iptables, { code, stderr }: Ended): Error {
  const why = stderr.trim().split("\n").join("; ");
  const message = `${path}: ${why || `it ended with code ${code}`}`;
  return UNUSABLE.includes(code)
    ? new BackendMissing(message)
    : new Error(message);
}
