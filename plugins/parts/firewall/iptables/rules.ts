/**
 * Chains and rules of one table of iptables: listed, ensured and changed, by any
 * variant of the program. All changes of one call are made by one run of
 * `iptables-restore --noflush`: all or none.
 *
 * ```ts ignore
 * await ensureRules(iptables, {
 *   chains: ["CNI-FORWARD"],
 *   rules: [{ chain: "FORWARD", args: ["-j", "CNI-FORWARD"], isFirst: true }],
 * });
 * await changeRules(iptables, async () =>
 *   (await listRules(iptables, "CNI-FORWARD") ?? [])
 *     .filter((rule) => rule.includes(" -s 10.1.2.5/32 "))
 *     .map(deleteLineOf));
 * ```
 *
 * @module
 */

import { lockNetns } from "../../sandbox/lock_netns.ts";
import {
  failureOf,
  type Iptables,
  joinRule,
  OTHER_PROBLEM,
  type ProgramResult,
  restoreIptables,
  runIptables,
} from "./program.ts";

/**
 * Exit codes of a check of a rule that does not exist: by itself, or because of
 * the chain to which it jumps.
 *
 * Source: iptables include/xtables.h `OTHER_PROBLEM`, `PARAMETER_PROBLEM`.
 */
const ABSENT: readonly number[] = [OTHER_PROBLEM, 2];

/** A rule that should exist. */
export interface IptablesRule {
  readonly chain: string;
  /** Matches and target, in the words of iptables(8). */
  readonly args: readonly string[];
  /** Whether it is added before all others of the chain; otherwise after them. */
  readonly isFirst?: boolean;
}

/**
 * Reads the rules that exist, and returns the lines that change them, such as
 * `-D CHAIN -j ACCEPT`.
 */
export type RulePlan = () => Promise<readonly string[]>;

/** Chains and rules that should exist. */
export interface Wanted {
  readonly chains: readonly string[];
  readonly rules: readonly IptablesRule[];
}

/**
 * Lists the rules of a chain, as lines `-A CHAIN …`.
 *
 * @returns Undefined if the chain does not exist
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output
 */
export async function listRules(
  iptables: Iptables,
  chain: string,
): Promise<string[] | undefined> {
  const listed = await runIptables(iptables, ["-S", chain]);
  if (listed.code === OTHER_PROBLEM) return undefined;
  if (!listed.success) throw failureOf(iptables, listed);
  return listed.stdout.split("\n").filter((line) => line.startsWith("-A "));
}

/**
 * Ensures that chains and rules exist, and makes more changes with them. If
 * nothing is missing, one program runs once, besides the plan.
 *
 * @param more Changes that need the chains
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output; nothing is changed
 */
export async function ensureRules(
  iptables: Iptables,
  wanted: Wanted,
  more: RulePlan = () => Promise.resolve([]),
): Promise<void> {
  const checks = wanted.rules.map(checkOf);
  // One failing check refuses everything.
  const first = await restoreIptables(iptables, [...checks, ...await more()]);
  if (first.success) return;
  using _lock = await lockSharedChains(iptables);
  await changeRules(iptables, async () => [
    ...await listMissing(iptables, wanted),
    ...await more(),
  ]);
}

/**
 * Waits for the turn to add chains that all attachments share. iptables-nft does
 * not notice a chain that was added while it runs, and adds the rules a second
 * time. So one at a time.
 */
export function lockSharedChains({ netns }: Iptables): Promise<Disposable> {
  return lockNetns(netns, { what: "the host's network namespace" });
}

/**
 * Makes changes that depend on the rules that exist. If other programs changed
 * these in between, starts again.
 *
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output; nothing is changed
 */
export async function changeRules(
  iptables: Iptables,
  plan: RulePlan,
): Promise<void> {
  let refused:
    | { readonly changes: string; readonly ended: ProgramResult }
    | undefined;
  while (true) {
    const changes = await plan();
    if (changes.length === 0) return;
    const text = changes.join("\n");
    if (text === refused?.changes) throw failureOf(iptables, refused.ended);
    const ended = await restoreIptables(iptables, changes);
    if (ended.success) return;
    refused = { changes: text, ended };
  }
}

/** Returns the line that adds a rule. */
export function addLineOf({ chain, args, isFirst }: IptablesRule): string {
  return `${isFirst ? "-I" : "-A"} ${chain} ${joinRule(args)}`;
}

/** Returns the line that deletes a listed rule. */
export function deleteLineOf(rule: string): string {
  return rule.replace(/^-A/, "-D");
}

/**
 * Returns the first of the rules that does not exist.
 *
 * @returns Undefined if all exist
 * @throws {BackendMissing} If the program cannot work on this host
 */
export async function findMissingRule(
  iptables: Iptables,
  rules: readonly IptablesRule[],
): Promise<IptablesRule | undefined> {
  const ended = await restoreIptables(iptables, rules.map(checkOf));
  if (ended.success) return undefined;
  for (const rule of rules) {
    if (await isAbsent(iptables, rule)) return rule;
  }
  throw failureOf(iptables, ended);
}

/**
 * Reports whether a rule does not exist.
 *
 * @throws {Error} With the program's output, if it cannot determine that
 */
async function isAbsent(
  iptables: Iptables,
  { chain, args }: IptablesRule,
): Promise<boolean> {
  const ended = await runIptables(iptables, ["-C", chain, ...args]);
  if (ended.success || ABSENT.includes(ended.code)) return !ended.success;
  throw failureOf(iptables, ended);
}

/** Lists the changes that add the missing chains and rules. */
async function listMissing(
  iptables: Iptables,
  { chains, rules }: Wanted,
): Promise<string[]> {
  const missing = await chooseAsync(
    chains,
    async (chain) => await listRules(iptables, chain) === undefined,
  );
  // A missing chain is adopted with all rules that refer to it.
  const isNew = ({ chain, args }: IptablesRule): boolean =>
    missing.some((one) => one === chain || args.includes(one));
  const old = rules.filter((rule) => !isNew(rule));
  const absent = await chooseAsync(
    old,
    (rule) => isAbsent(iptables, rule),
  );
  return [
    ...missing.map((chain) => `-N ${chain}`),
    ...rules.filter((rule) => isNew(rule) || absent.includes(rule))
      .map(addLineOf),
  ];
}

function checkOf({ chain, args }: IptablesRule): string {
  return `-C ${chain} ${joinRule(args)}`;
}

/**
 * Returns the elements for which a condition holds; all are tested
 * concurrently.
 */
async function chooseAsync<T>(
  all: readonly T[],
  condition: (one: T) => Promise<boolean>,
): Promise<T[]> {
  const results = await Promise.all(all.map(condition));
  return all.filter((_, index) => results[index]);
}
