/**
 * Chains and rules of an iptables table: listed, ensured and changed, with any
 * variant of the program. A single run of `iptables-restore --noflush` makes all
 * changes of a call, or none. Calls of this process that arrive during a run of a
 * program share the next run.
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

import { throwAll } from "../../../../base/rollback.ts";
import { Cidr } from "../../../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../../../net/ip.ts";
import { lockNetns } from "../../sandbox/lock_netns.ts";
import { netnsIdOf } from "../../sandbox/sandbox.ts";
import { BackendMissing } from "./find.ts";
import {
  failureOf,
  GivenUp,
  type Iptables,
  joinRule,
  LIMIT_SECONDS,
  OTHER_PROBLEM,
  Overdue,
  type ProgramResult,
  restoreIptables,
  runIptables,
  splitRule,
  Untried,
} from "./program.ts";
import { SharedRuns } from "./shared_runs.ts";

/**
 * Exit codes of a check for a missing rule: because of the rule itself, or because of
 * the chain to which it jumps.
 *
 * Source: iptables include/xtables.h `OTHER_PROBLEM`, `PARAMETER_PROBLEM`.
 */
const ABSENT: readonly number[] = [OTHER_PROBLEM, 2];

/** A rule that should exist. */
export interface IptablesRule {
  readonly chain: string;
  /** Matches and target, in the syntax of iptables(8). */
  readonly args: readonly string[];
  /** Whether it is added at the beginning of the chain instead of the end. */
  readonly isFirst?: boolean;
}

/**
 * Reads the existing rules, and returns the lines that change them, such as `-D CHAIN
 * -j ACCEPT`.
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
): Promise<readonly string[] | undefined> {
  return (await listChains(iptables, [chain])).get(chain);
}

/**
 * Lists the rules of some chains, and possibly of further chains, by chain: a run of
 * the program lists a single chain, or the whole table.
 *
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output
 */
export async function listChains(
  iptables: Iptables,
  chains: readonly string[],
): Promise<Listing["chains"]> {
  const request = { iptables, chains };
  return (await listings.run(keyOf(iptables), request)).chains;
}

/**
 * Lists the whole table: its chains as lines `-P CHAIN ...` and `-N CHAIN`, then all
 * rules.
 *
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output
 */
export async function listTable(
  iptables: Iptables,
): Promise<readonly string[]> {
  const request = { iptables, chains: [] };
  return (await listings.run(keyOf(iptables), request)).lines;
}

/** A table, or one of its chains. */
interface Listing {
  readonly lines: readonly string[];
  /** The rules of each chain. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
}

/** The reactions to a failed run, for its callers. */
export const FAILURES = {
  isRetried: (error: unknown): boolean => !(error instanceof Overdue),
  isGivenUp: (
    error: unknown,
    { iptables }: { readonly iptables: Iptables },
  ): boolean => error instanceof GivenUp && error.signal === iptables.signal,
} as const;

const listings = new SharedRuns<
  { readonly iptables: Iptables; readonly chains: readonly string[] },
  Listing
>(async (requests) => {
  const [{ iptables, chains: [chain = ""] }] = requests;
  const isOne = requests.every(({ chains }) =>
    chains.length > 0 && chains.every((one) => one === chain)
  );
  const listed = await runIptables(iptables, isOne ? ["-S", chain] : ["-S"]);
  const isAbsent = isOne && listed.code === OTHER_PROBLEM;
  if (!isAbsent && !listed.success) throw failureOf(iptables, listed);
  const lines = listed.stdout.split("\n");
  const chains = new Map<string, string[]>();
  for (const line of lines) {
    const [command, name = ""] = line.split(" ", 2);
    const rules = chains.get(name) ?? [];
    if (command === "-A") rules.push(line);
    chains.set(name, rules);
  }
  return requests.map(() => ({ lines, chains }));
}, { ...FAILURES, isRetried: () => false });

/** Returns the key that calls must have in common to share a run. */
export function keyOf({ netns, family, table, path }: Iptables): string {
  return [netnsIdOf(netns) ?? netns.path, family, table, path].join(" ");
}

/**
 * Ensures that chains and rules exist, and makes additional changes together with
 * them. If nothing is missing, a single run suffices, besides the plan.
 *
 * @param more Changes that need the chains
 * @param claims Objects that no other call may change in the same run
 * @throws {BackendMissing} If the program cannot work on this host
 * @throws {Error} With the program's output; nothing is changed
 */
export async function ensureRules(
  iptables: Iptables,
  wanted: Wanted,
  more: RulePlan = () => Promise.resolve([]),
  claims: readonly string[] = [],
): Promise<void> {
  const request = { iptables, wanted, more, claims };
  await ensuring.run(keyOf(iptables), request);
}

const ensuring = new SharedRuns<
  {
    readonly iptables: Iptables;
    readonly wanted: Wanted;
    readonly more: RulePlan;
    readonly claims: readonly string[];
  },
  void
>(async (requests) => {
  const [{ iptables }] = requests;
  const more = async (): Promise<string[]> =>
    joinChanges(await Promise.all(requests.map(({ more }) => more())));
  const wanted = joinWanted(requests.map(({ wanted }) => wanted));
  await ensureTogether(iptables, wanted, more);
  return requests.map(() => {});
}, { claimsOf: ({ claims }) => claims, ...FAILURES });

/** Merges the requirements of several calls, without duplicates. */
export function joinWanted(all: readonly Wanted[]): Wanted {
  const rules = all.flatMap(({ rules }) => rules)
    .map((rule) => [addLineOf(rule), rule] as const);
  return {
    chains: [...new Set(all.flatMap(({ chains }) => chains))],
    rules: [...new Map(rules).values()],
  };
}

/** Merges the changes of several calls; a deletion by two of them occurs once. */
function joinChanges(all: readonly (readonly string[])[]): string[] {
  const known = new Set<string>();
  return all.flatMap((changes) => {
    const own = changes.filter((change) => !known.has(change));
    for (const change of changes) known.add(change);
    return own;
  });
}

async function ensureTogether(
  iptables: Iptables,
  wanted: Wanted,
  more: RulePlan,
): Promise<void> {
  const checks = wanted.rules.map(checkOf);
  // A failed check makes the program refuse everything.
  const first = await restoreIptables(iptables, [...checks, ...await more()]);
  if (first.success) return;
  using _lock = await lockSharedChains(iptables);
  await changeRules(iptables, async () => [
    ...await listMissing(iptables, wanted),
    ...await more(),
  ]);
}

/**
 * Waits for the turn to add chains that all attachments share. iptables-nft does not
 * detect a chain that is added while it runs, and would add the rules a second time.
 * So only one call adds chains at a time, within a program's usual time limit.
 */
export function lockSharedChains({ netns }: Iptables): Promise<Disposable> {
  const limitMs = (LIMIT_SECONDS + 20) * 1000;
  return lockNetns(netns, { what: "the host's network namespace", limitMs });
}

/**
 * Makes changes that depend on the existing rules. If other programs changed these in
 * between, starts again.
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

/**
 * Removes chains together, or in halves if that is refused, down to the failing
 * chain: the kernel keeps a chain to which a different program's rule jumps, and such
 * a chain must not prevent the removal of the others. Stops if no chain is the cause:
 * if the program is missing, does not get the lock, or the call has ended.
 *
 * @param remove Removes some of the chains: all or none
 * @throws {Error} If a chain cannot be removed; the message names it
 * @throws {BackendMissing} If the program cannot work on this host
 */
export async function removeEach(
  chains: readonly string[],
  remove: (chains: readonly string[]) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const failures: unknown[] = [];
  const parts = chains.length > 0 ? [chains] : [];
  for (let part = parts.shift(); part; part = parts.shift()) {
    try {
      signal?.throwIfAborted();
      await remove(part);
    } catch (cause) {
      const isEnd = signal?.aborted || cause instanceof BackendMissing ||
        cause instanceof Untried;
      if (isEnd) {
        failures.push(cause);
        break;
      }
      if (part.length > 1) {
        const middle = Math.ceil(part.length / 2);
        parts.unshift(part.slice(0, middle), part.slice(middle));
        continue;
      }
      failures.push(
        new Error(`Cannot remove the chain "${part[0]}"`, { cause }),
      );
    }
  }
  throwAll(failures, `${failures.length} steps failed`);
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
 * Lists the missing rules. The program only checks rules that are not listed in the
 * expected form, because it compares a rule with all others.
 *
 * @throws {BackendMissing} If the program cannot work on this host
 */
export async function listMissingRules(
  iptables: Iptables,
  rules: readonly IptablesRule[],
): Promise<IptablesRule[]> {
  const listed = await listChains(iptables, rules.map(({ chain }) => chain));
  const spellings = new Map(
    [...Map.groupBy(rules, ({ chain }) => chain)].map(([chain, wanted]) =>
      [chain, spellingsIn(listed.get(chain) ?? [], wanted)] as const
    ),
  );
  const unlisted = rules.filter(({ chain, args }) =>
    !spellings.get(chain)?.has(spellingOf(args))
  );
  const hasNoChain = ({ chain }: IptablesRule): boolean =>
    !listed.get(chain)?.length;
  if (unlisted.every(hasNoChain)) return unlisted;
  const unclear = unlisted.filter((rule) => !hasNoChain(rule));
  const ended = await restoreIptables(iptables, unclear.map(checkOf));
  if (ended.success) return unlisted.filter(hasNoChain);
  const missing = await chooseAsync(
    unlisted,
    async (rule) => hasNoChain(rule) || await isAbsent(iptables, rule),
  );
  if (missing.every(hasNoChain)) throw failureOf(iptables, ended);
  return missing;
}

/** Normalizes lines. Only lines with a target of the required rules are parsed. */
function spellingsIn(
  lines: readonly string[],
  wanted: readonly IptablesRule[],
): Set<string> {
  const targets = new Set(
    wanted.map(({ args }) => args[args.indexOf("-j") + 1] ?? ""),
  );
  return new Set(
    lines.filter((line) => targets.values().some((one) => line.includes(one)))
      .map((line) => spellingOf(splitRule(line))),
  );
}

/**
 * Reports whether a rule does not exist.
 *
 * @throws {Error} With the program's output, if the check fails
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
  const listed = await listChains(iptables, chains);
  const missing = chains.filter((chain) => !listed.has(chain));
  // A missing chain is created with all rules that refer to it.
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

/** The options with addresses, which iptables lists as networks. */
const ADDRESS_OPTIONS: readonly string[] = ["-s", "-d"];

/** Options that iptables lists under a different name. */
const LISTED_OPTIONS = new Map([["--destination-ports", "--dports"]]);

/**
 * Returns a text that is equal for the arguments of a rule and for the line with
 * which iptables lists it, `-A CHAIN …`, unless iptables lists an option in a
 * different form.
 */
export function spellingOf(rule: readonly string[]): string {
  const options = rule.flatMap((word, at) => {
    const name = LISTED_OPTIONS.get(word) ?? word;
    const option = rule[at - 1] === "!" ? `!${name}` : name;
    const value = rule[at + 1] ?? "";
    // A protocol is listed together with the match for its ports.
    if (!word.startsWith("-") || ["-A", "-m"].includes(word)) return [];
    if (!ADDRESS_OPTIONS.includes(word)) return `${option} ${value}`;
    const network = unlessNoAddress(() => networkOf(value));
    return network?.prefixLength === 0 ? [] : `${option} ${network ?? value}`;
  });
  return options.sort().join(" ");
}

function networkOf(text: string): Cidr {
  if (text.includes("/")) return Cidr.parse(text).masked();
  const ip = Ip.parse(text);
  return Cidr.of(ip, ip.family === 4 ? 32 : 128);
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
