/**
 * The rules of addresses in iptables-nft, which are read, added and removed without a
 * run of the program: each run reads the rules of all addresses on the host.
 *
 * The expressions are those that `iptables` uses, so `iptables` and the Go plugin
 * find, list and delete the rules. Rules in any other form are left to the program.
 *
 * Source: iptables iptables/nft.c, iptables/nft-ipv4.c.
 *
 * @module
 */

import {
  appendRule,
  type Change,
  delRuleOf,
  type NewRule,
  type Table,
} from "../../ffi/nftables/change.ts";
import {
  comparedValues,
  count,
  decide,
  jumpTo,
  listComparisons,
  matchNetwork,
  verdictOf,
  VERDICTS,
  xtablesComment,
  xtablesEstablished,
} from "../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import { nftTableOf } from "../parts/firewall/iptables/nft_table.ts";

const TABLES: Readonly<Record<IpFamily, Table>> = {
  4: nftTableOf("filter", 4),
  6: nftTableOf("filter", 6),
};
/**
 * More addresses than an attachment usually has are left to the program, which reads
 * the rules once for all of them.
 */
const FEW = 4;
/** The chain that the kernel calls, and the chain with the rules of addresses. */
export const FORWARD = "FORWARD", PRIVATE = "CNI-FORWARD";
/** The first chain of ingress policies. */
export const STAGE_1 = "CNI-ISOLATION-STAGE-1";
/** The comment of the rule that leads to {@linkcode PRIVATE}. */
export const FORWARD_COMMENT = "CNI firewall plugin rules";
/** The comment of the rule that leads to the administrator's chain. */
export const ADMIN_COMMENT = "CNI firewall plugin admin overrides";

/**
 * Adds the missing rules of addresses.
 *
 * @param addresses Of one family
 * @returns False if only the program can do this; it must then make all changes
 * @throws {NetlinkError} If the kernel refuses; nothing is then changed
 */
export async function addByNetlink(
  nftables: Nftables,
  addresses: readonly Ip[],
  adminChain: string,
): Promise<boolean> {
  let missing: readonly Change[] | undefined;
  await commitUnlessDisturbed(nftables, () => {
    missing = findMissing(nftables, addresses, adminChain);
    return missing ?? [];
  });
  return missing !== undefined;
}

/**
 * Lists the changes that add the missing rules of addresses.
 *
 * @param addresses Of one family
 * @returns Undefined if only the program can tell, or if rules that all attachments
 *   share are missing or in the wrong place
 */
export function findMissing(
  nftables: Nftables,
  addresses: readonly Ip[],
  adminChain: string,
): Change[] | undefined {
  const [first] = addresses;
  if (first === undefined || addresses.length > FEW) return undefined;
  if (!hasJumps(nftables, first.family, adminChain)) return undefined;
  const found = addresses.map((ip) => findRules(nftables, ip));
  if (found.some(({ hasOthers }) => hasOthers)) return undefined;
  return found.flatMap(({ table, wanted, own }) => {
    const present = own.map(formOf);
    return wanted.filter((rule) => !present.includes(formOf(rule)))
      .map((rule) => appendRule(table, rule));
  });
}

/**
 * Removes the rules of addresses.
 *
 * @returns False if only the program can tell whether some of the rules are left
 * @throws {NetlinkError} If the kernel refuses; nothing is then changed
 */
export async function removeByNetlink(
  nftables: Nftables,
  addresses: readonly Ip[],
): Promise<boolean> {
  if (addresses.length > FEW) return false;
  let isSure = true;
  await commitUnlessDisturbed(nftables, () => {
    const found = addresses
      .filter((ip) => nftables.hasChain(tableOf(ip), PRIVATE))
      .map((ip) => findRules(nftables, ip));
    isSure = !found.some(({ hasOthers }) => hasOthers);
    return found.flatMap(({ table, own }) =>
      own.map(({ handle }) => delRuleOf(table, PRIVATE, handle))
    );
  });
  return isSure;
}

function tableOf({ family }: Ip): Table {
  return TABLES[family];
}

/** Lists the rules of an address. */
function rulesOf(ip: Ip): NewRule[] {
  const host = Cidr.host(ip);
  return [
    [...matchNetwork("destination", "==", host), xtablesEstablished()],
    matchNetwork("source", "==", host),
  ].map((matches) => ({
    chain: PRIVATE,
    expressions: [...matches, count(), decide("accept")],
  }));
}

/** The rules of an address. */
interface RulesOfAddress {
  readonly table: Table;
  readonly wanted: readonly NewRule[];
  /** The wanted rules that exist. */
  readonly own: readonly Rule[];
  /**
   * Whether other rules name the address, which might be the same in the form of a
   * different release of iptables.
   */
  readonly hasOthers: boolean;
}

function findRules(nftables: Nftables, ip: Ip): RulesOfAddress {
  const table = tableOf(ip), wanted = rulesOf(ip);
  const bytes = new Uint8Array(ip.toBytes()), key = bytes.toHex();
  const { rules } = nftables.findRules(table, PRIVATE, keyOf, key, bytes);
  const forms = wanted.map(formOf);
  const own = rules.filter((rule) => forms.includes(formOf(rule)));
  return { table, wanted, own, hasOthers: own.length < rules.length };
}

/** Returns the chain to which a rule jumps, or the first value that it compares. */
function keyOf({ expressions }: Rule): string {
  return verdictOf(expressions)?.chain ??
    comparedValues(expressions)[0]?.toHex() ?? "";
}

/** Returns a normal form of a rule, without its counter. */
function formOf(
  { expressions, comment = "" }: Pick<NewRule, "expressions" | "comment">,
): string {
  const values = listComparisons(expressions)
    .map(({ offset, operator, value }) => [offset, operator, value.toHex()]);
  const others = expressions.filter(({ name }) => !COMPARED.includes(name))
    .map(({ name, data }) => [name, data.toHex()]);
  const { code, chain } = verdictOf(expressions) ?? {};
  return [values, others, code, chain, comment].join();
}

/** Expressions that {@linkcode formOf} does not compare byte by byte. */
const COMPARED: readonly string[] = ["payload", "cmp", "immediate", "counter"];

/**
 * Reports whether all forwarded packets traverse the address rules, after those of the
 * policy.
 */
export function hasJumps(
  nftables: Nftables,
  family: IpFamily,
  adminChain: string,
): boolean {
  const table = TABLES[family];
  const forward = nftables.listRules(table, FORWARD);
  const at = forward.findIndex(isJump(FORWARD_COMMENT, PRIVATE));
  return at >= 0 &&
    !forward.slice(0, at).some(mayRefuse) &&
    !forward.slice(at).some(({ expressions }) =>
      verdictOf(expressions)?.chain === STAGE_1
    ) &&
    nftables.findRules(table, PRIVATE, keyOf, adminChain).rules
      .some(isJump(ADMIN_COMMENT, adminChain));
}

function isJump(comment: string, chain: string): (rule: Rule) => boolean {
  const expressions = [xtablesComment(comment), jumpTo(chain)];
  const form = formOf({ expressions });
  return (rule) => formOf(rule) === form;
}

function mayRefuse({ expressions }: Rule): boolean {
  return verdictOf(expressions)?.code === VERDICTS.drop ||
    expressions.some(({ name }) => name === "target" || name === "reject");
}
