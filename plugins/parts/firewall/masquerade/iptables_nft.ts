/**
 * Adds and removes the rules of `iptables-nft` without running it.
 *
 * In tables `ip nat` and `ip6 nat`, for each attachment:
 *
 * ```
 * -N CNI-<hash of network and container>
 * -A CNI-<hash> -d 10.1.2.0/24 -j ACCEPT
 * -A CNI-<hash> ! -d 224.0.0.0/4 -j MASQUERADE
 * -A POSTROUTING -s 10.1.2.5/32 -j CNI-<hash>
 * ```
 *
 * With an outbound address, `-j SNAT --to-source` takes the place of
 * `-j MASQUERADE`. All have the comment `name: "<network>" id: "<container>"`. Chains, rules and
 * comments are the Go plugins', and each rule has the expressions that
 * `iptables` uses. So `iptables` and the Go plugins find, list and delete our
 * rules, and vice versa.
 *
 * The last DEL removes chain POSTROUTING if we added it, and then the table if
 * it has no chains.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_iptables_linux.go; iptables
 * iptables/nft.c, iptables/nft-ipv4.c.
 *
 * @module
 */

import {
  addChain,
  addTable,
  appendRule,
  type Change,
  delChainOf,
  delRuleOf,
  delTableOf,
  flushChain,
  type NewRule,
  prependRule,
  type Table,
} from "../../../../ffi/nftables/change.ts";
import {
  comparedValues,
  count,
  decide,
  type Expression,
  jumpTo,
  listComparisons,
  matchNetwork,
  newSourceOf,
  verdictOf,
  xtablesComment,
  xtablesCommentOf,
  xtablesMasquerade,
  xtablesTranslateSource,
} from "../../../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../../../ffi/nftables/mod.ts";
import { Cidr } from "../../../../net/cidr.ts";
import { Ip, type IpFamily } from "../../../../net/ip.ts";
import { commitUnlessDisturbed } from "../commit_unless_disturbed.ts";
import {
  type NftTable,
  nftTableOf,
  refuseForeignChains,
} from "../iptables/nft_table.ts";
import {
  containerIn,
  findOutbound,
  type MasqueradeNames,
  type MasqueradeRules,
  MULTICAST,
  type SourceTest,
} from "./names.ts";
import { SOURCE_NAT } from "./nftables.ts";

const TABLES: Readonly<Record<IpFamily, NftTable>> = {
  4: nftTableOf("nat", 4),
  6: nftTableOf("nat", 6),
};
const FAMILIES: readonly IpFamily[] = [4, 6];
const POSTROUTING = "POSTROUTING";
/** The comment that marks a chain of this project. */
const COMMENT = "Made for CNI plugins";

/**
 * Masquerades packets from the addresses to destinations outside their subnets.
 *
 * @throws {NetlinkError} If the kernel refuses; nothing is then changed
 * @throws {RangeError} If the names exceed a comment of iptables
 */
export async function addIptablesNftMasquerade(
  nftables: Nftables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Promise<void> {
  const families = FAMILIES.map((family) => ({
    table: TABLES[family],
    rules: rulesOf(names, addresses.filter((one) => one.family === family)),
  })).filter(({ rules }) => rules.length > 0);
  // Commits nothing that may be refused: the kernel takes 10 ms to undo it.
  await commitUnlessDisturbed(
    nftables,
    () =>
      families.flatMap(({ table, rules }) => [
        ...missingTable(nftables, table),
        ...missingRules(nftables, table, { names, rules }),
      ]),
  );
}

/**
 * Removes an attachment's rules, and its chain unless another interface of the
 * container still uses it.
 */
export async function delIptablesNftMasquerade(
  nftables: Nftables,
  { chain }: Pick<MasqueradeNames, "chain">,
  isOwn: SourceTest,
): Promise<void> {
  for (const table of Object.values(TABLES)) {
    await commitUnlessDisturbed(
      nftables,
      () =>
        nftables.hasChain(table, chain)
          ? removalOf(nftables, table, chain, isOwn)
          : [],
    );
  }
}

/** Lists the containers that have rules for a network. */
export function listIptablesNftContainers(
  nftables: Nftables,
  network: string,
): string[] {
  const rules = Object.values(TABLES)
    .flatMap((table) => nftables.listRules(table, POSTROUTING))
    .filter((rule) => rule.mentions(network));
  return rules.flatMap(({ expressions }) =>
    containerIn(xtablesCommentOf(expressions), network) ?? []
  );
}

/** Lists the addresses that are not masqueraded for the attachment. */
export function listIptablesNftUnmasqueraded(
  nftables: Nftables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Cidr[] {
  return addresses.filter((address) => {
    const table = TABLES[address.family];
    return !nftables.hasChain(table, names.chain) ||
      listMissing(nftables, table, rulesOf(names, [address])).length > 0;
  });
}

/** @param addresses Of one family */
function rulesOf(
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): NewRule[] {
  const { chain, iptablesComment } = names;
  const comment = [xtablesComment(iptablesComment), count()];
  const [first] = addresses;
  if (first === undefined) return [];
  const { family } = first;
  const outbound = findOutbound(names, family);
  const rule = (chain: string, ...expressions: Expression[]): NewRule => ({
    chain,
    expressions,
  });
  return [
    rule(
      chain,
      ...matchNetwork("destination", "!=", MULTICAST[family]),
      ...comment,
      outbound ? xtablesTranslateSource(outbound) : xtablesMasquerade(family),
    ),
    ...addresses.flatMap((address) => [
      rule(
        chain,
        ...matchNetwork("destination", "==", address),
        ...comment,
        decide("accept"),
      ),
      rule(
        POSTROUTING,
        ...matchNetwork("source", "==", Cidr.host(address.ip)),
        ...comment,
        jumpTo(chain),
      ),
    ]),
  ];
}

/** Lists the changes that add the chain and the missing rules. */
function missingRules(
  nftables: Nftables,
  table: Table,
  { names: { chain }, rules }: {
    readonly names: Pick<MasqueradeNames, "chain">;
    readonly rules: readonly NewRule[];
  },
): Change[] {
  const additions = (missing: readonly NewRule[]): Change[] =>
    missing.map((rule) => addition(table, rule));
  // The chain may belong to another interface or an earlier attachment.
  return nftables.hasChain(table, chain)
    ? [
      ...otherTranslations(nftables, table, { chain, rules }),
      ...additions(listMissing(nftables, table, rules)),
    ]
    : [addChain(table, chain), ...additions(rules)];
}

/** Lists the changes that remove translations to another outbound address. */
function otherTranslations(
  nftables: Nftables,
  table: Table,
  { chain, rules }: { chain: string; rules: readonly NewRule[] },
): Change[] {
  const wanted = rules.map(({ expressions }) => meaningOf(expressions));
  return nftables.listRules(table, chain).filter(({ expressions }) =>
    newSourceOf(expressions) !== undefined &&
    !wanted.includes(meaningOf(expressions))
  ).map(({ handle }) => delRuleOf(table, chain, handle));
}

/**
 * Returns the change that adds a rule. Rules that spare subnets come before the
 * one that masquerades.
 */
function addition(table: Table, rule: NewRule): Change {
  const isFirst = rule.chain !== POSTROUTING &&
    newSourceOf(rule.expressions) === undefined;
  return isFirst ? prependRule(table, rule) : appendRule(table, rule);
}

/** Lists the missing rules. */
function listMissing(
  nftables: Nftables,
  table: Table,
  rules: readonly NewRule[],
): NewRule[] {
  const chains = Map.groupBy(rules, ({ chain }) => chain);
  const [own = ""] = [...chains.keys()].filter((name) => name !== POSTROUTING);
  return [...chains].flatMap(([chain, wanted]) => {
    const rules = chain === own
      ? nftables.listRules(table, own)
      : nftables.findRules(table, chain, targetOf, own).rules;
    const there = rules.map(({ expressions }) => meaningOf(expressions));
    return wanted.filter(({ expressions }) =>
      !there.includes(meaningOf(expressions))
    );
  });
}

/**
 * Returns a normal form of a rule for all releases of iptables: some compare
 * all bytes of a subnet under a mask, others only its own bytes.
 */
function meaningOf(expressions: readonly Expression[]): string {
  const values = listComparisons(expressions).map((
    { offset, operator, value, prefixLength },
  ) => `${offset} ${operator} ${value.toHex()}/${prefixLength}`);
  const { code, chain } = verdictOf(expressions) ?? {};
  const source = newSourceOf(expressions)?.toHex();
  return [...values, `source ${source}`, code, chain].join(" ");
}

/** @throws {BackendMissing} If iptables cannot use the table */
function missingTable(nftables: Nftables, table: NftTable): Change[] {
  if (nftables.hasChain(table, POSTROUTING)) return [];
  refuseForeignChains(nftables, table);
  const base = { ...SOURCE_NAT, comment: COMMENT };
  return [addTable(table), addChain(table, POSTROUTING, base)];
}

function removalOf(
  nftables: Nftables,
  table: Table,
  chain: string,
  isOwn: SourceTest,
): Change[] {
  const { rules: leading, hasOthers } = nftables
    .findRules(table, POSTROUTING, targetOf, chain);
  const own = leading.filter((rule) => isOwn(sourceOf(rule)));
  const removal = own.map(({ handle }) =>
    delRuleOf(table, POSTROUTING, handle)
  );
  if (own.length < leading.length) return removal;
  return [
    ...removal,
    flushChain(table, chain),
    delChainOf(table, chain),
    ...hasOthers ? [] : unusedTable(nftables, table, chain),
  ];
}

/** Returns the chain that a rule leads to; "" for none. */
function targetOf({ expressions }: Rule): string {
  return verdictOf(expressions)?.chain ?? "";
}

/**
 * Lists the changes that remove our shared chain and the table if nothing else
 * uses them.
 */
function unusedTable(
  nftables: Nftables,
  table: Table,
  chain: string,
): Change[] {
  const others = nftables.listChains(table)
    .filter(({ name }) => name !== chain);
  const isOurs = others.some(({ name, comment }) =>
    name === POSTROUTING && comment === COMMENT
  );
  if (!isOurs) return [];
  const removal = delChainOf(table, POSTROUTING);
  return others.length > 1 ? [removal] : [removal, delTableOf(table)];
}

function sourceOf({ expressions }: Rule): Ip | undefined {
  const [source] = comparedValues(expressions);
  const isAddress = source?.length === 4 || source?.length === 16;
  return isAddress ? Ip.fromBytes(source) : undefined;
}
