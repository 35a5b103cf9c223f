/**
 * Masquerading by nf_tables.
 *
 * ```
 * table inet cni_plugins_masquerade {
 *   map source_ip  { 10.1.2.5 : goto from-10.1.2.0-24  comment "<attachment>" }
 *   map source_ip6 { … }
 *   chain postrouting { type nat hook postrouting priority srcnat
 *     ip daddr == 224.0.0.0/4 return
 *     ip6 daddr == ff00::/8 return
 *     goto masq_checks
 *   }
 *   chain masq_checks {
 *     ip saddr vmap @source_ip
 *     ip6 saddr vmap @source_ip6
 *     (the Go plugins' rules, one for each address)
 *   }
 *   chain from-10.1.2.0-24 { ip daddr != 10.1.2.0/24 masquerade }
 * }
 * ```
 *
 * An attachment is an element for each of its addresses, so that neither ADD nor
 * DEL gets slower with the number of attachments, and a packet is decided by two
 * lookups. Table and chains are the Go plugins', whose rules are left in place
 * and removed on DEL and GC of the attachments that they belong to.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_nftables_linux.go.
 *
 * @module
 */

import { isErrno } from "../../../ffi/errno.ts";
import {
  addChain,
  addElement,
  addTable,
  addVerdictMap,
  appendRule,
  type Change,
  delElement,
  delRuleOf,
  type Table,
} from "../../../ffi/nftables/change.ts";
import {
  decide,
  decideByAddress,
  goTo,
  masquerade,
  matchFamily,
  matchNetwork,
} from "../../../ffi/nftables/expression.ts";
import type { Nftables } from "../../../ffi/nftables/mod.ts";
import { Cidr } from "../../../net/cidr.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import { commitUnlessDisturbed } from "../commit_unless_disturbed.ts";
import type { MasqueradeNames } from "./names.ts";

const TABLE: Table = { family: "inet", name: "cni_plugins_masquerade" };
const TABLE_COMMENT = "Masquerading for CNI plugins";
const POSTROUTING = "postrouting", CHECKS = "masq_checks";
/** Source: include/uapi/linux/netfilter_ipv4.h `NF_IP_PRI_NAT_SRC`. */
const SOURCE_NAT_PRIORITY = 100;

/** What differs between the families. */
const FAMILIES: readonly {
  readonly family: IpFamily;
  readonly map: string;
  readonly multicast: string;
}[] = [
  { family: 4, map: "source_ip", multicast: "224.0.0.0/4" },
  { family: 6, map: "source_ip6", multicast: "ff00::/8" },
];

/** Comment of the rules that lead to the maps; no attachment's begins so. */
const MAP_RULE_COMMENT = "by source address";

/**
 * Masquerades what leaves the addresses for other places than their subnets.
 *
 * @param addresses With the prefix lengths of their subnets
 * @throws {NetlinkError} If the kernel refuses; then nothing is changed
 */
export function addMasquerade(
  nftables: Nftables,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): void {
  const elements = addresses.map((address) => elementOf(address, names));
  try {
    // All else is there but for the first attachment to a network.
    nftables.commit(elements);
  } catch (error) {
    if (!isErrno(error, "ENOENT", "EEXIST")) throw error;
    commitUnlessDisturbed(nftables, () => [
      ...missingSkeleton(nftables),
      ...missingNetworks(nftables, addresses),
      ...addresses.flatMap((address) => forgetOther(nftables, address)),
      ...elements,
    ]);
  }
}

/**
 * Removes all that belongs to an attachment, the Go plugins' rules included.
 *
 * @param addresses Those that it is known to have; if undefined, or if one is
 * not its own, it is looked for among all
 */
export function delMasquerade(
  nftables: Nftables,
  { instance }: MasqueradeNames,
  addresses: readonly Ip[] | undefined,
): void {
  const isOwn = (comment: string): boolean => comment.startsWith(instance);
  commitUnlessDisturbed(nftables, () => [
    ...ownElements(nftables, isOwn, addresses),
    ...ownRules(nftables, isOwn),
  ]);
}

/** Removes what belongs to attachments to the network other than these. */
export function delStaleMasquerade(
  nftables: Nftables,
  networkHash: string,
  valid: readonly MasqueradeNames[],
): void {
  const spared = new Set(valid.map(({ instance }) => instance));
  const isStale = (comment: string): boolean =>
    comment.startsWith(`${networkHash}-`) &&
    !spared.has(comment.slice(0, `${networkHash}-${networkHash}`.length));
  commitUnlessDisturbed(nftables, () => [
    ...ownElements(nftables, isStale, undefined),
    ...ownRules(nftables, isStale),
  ]);
}

/**
 * Finds an address that is not masqueraded for the attachment, by us or by the
 * Go plugins.
 */
export function findUnmasqueraded(
  nftables: Nftables,
  { instance }: MasqueradeNames,
  addresses: readonly Ip[],
): Ip | undefined {
  const rules = nftables.listRules(TABLE, CHECKS);
  if (nftables.listRules(TABLE, POSTROUTING).length === 0) return addresses[0];
  if (rules.some(({ comment }) => comment.startsWith(instance))) {
    return undefined;
  }
  return addresses.find((address) => {
    const { map } = familyOf(address);
    const isLedToMap = rules.some(({ comment }) =>
      comment === mapRuleComment(map)
    );
    const element = nftables.findElement(TABLE, map, address);
    return !isLedToMap || !element?.comment.startsWith(instance);
  });
}

function familyOf({ family }: { family: IpFamily }): typeof FAMILIES[number] {
  const [ip4, ip6] = FAMILIES;
  return (family === 4 ? ip4 : ip6) as typeof FAMILIES[number];
}

function mapRuleComment(map: string): string {
  return `${MAP_RULE_COMMENT} (${map})`;
}

/** The chain for packets from one subnet; colons are none of `nft`'s letters. */
function chainOf(address: Cidr): string {
  const { ip, prefixLength } = address.masked();
  return `from-${ip.toString().replaceAll(":", "_")}-${prefixLength}`;
}

function elementOf(address: Cidr, { comment }: MasqueradeNames): Change {
  const { map } = familyOf(address);
  const chain = chainOf(address);
  return addElement(TABLE, map, { key: address.ip, chain, comment });
}

/** Lists the changes that complete what all attachments share. */
function missingSkeleton(nftables: Nftables): Change[] {
  return [
    addTable(TABLE, TABLE_COMMENT),
    ...unlessThere(nftables, CHECKS, () => addChain(TABLE, CHECKS)),
    ...missingPostrouting(nftables),
    ...missingMaps(nftables),
  ];
}

function missingPostrouting(nftables: Nftables): Change[] {
  const chain = POSTROUTING;
  const base = {
    type: "nat",
    hook: "postrouting",
    priority: SOURCE_NAT_PRIORITY,
  } as const;
  const changes = unlessThere(
    nftables,
    chain,
    () => addChain(TABLE, chain, base),
  );
  if (nftables.listRules(TABLE, chain).length > 0) return changes;
  const returns = FAMILIES.map(({ family, multicast }) => [
    ...matchFamily(family),
    ...matchNetwork("destination", "==", Cidr.parse(multicast)),
    decide("return"),
  ]);
  const rules = [...returns, [goTo(CHECKS)]]
    .map((expressions) => appendRule(TABLE, { chain, expressions }));
  return [...changes, ...rules];
}

function missingMaps(nftables: Nftables): Change[] {
  const rules = nftables.listRules(TABLE, CHECKS);
  return FAMILIES.flatMap(({ family, map }) => {
    const comment = mapRuleComment(map);
    const expressions = [
      ...matchFamily(family),
      ...decideByAddress("source", family, map),
    ];
    const isLedTo = rules.some((rule) => rule.comment === comment);
    return [
      ...nftables.hasSet(TABLE, map) ? [] : [addVerdictMap(TABLE, map, family)],
      ...isLedTo
        ? []
        : [appendRule(TABLE, { chain: CHECKS, expressions, comment })],
    ];
  });
}

/** Lists the changes that complete the chains of the addresses' subnets. */
function missingNetworks(
  nftables: Nftables,
  addresses: readonly Cidr[],
): Change[] {
  const byChain = new Map(addresses.map((cidr) => [chainOf(cidr), cidr]));
  return [...byChain].flatMap(([chain, address]) => {
    const expressions = [
      ...matchFamily(address.family),
      ...matchNetwork("destination", "!=", address),
      masquerade(),
    ];
    return [
      ...unlessThere(nftables, chain, () => addChain(TABLE, chain)),
      ...nftables.listRules(TABLE, chain).length > 0
        ? []
        : [appendRule(TABLE, { chain, expressions })],
    ];
  });
}

function unlessThere(
  nftables: Nftables,
  chain: string,
  add: () => Change,
): Change[] {
  return nftables.hasChain(TABLE, chain) ? [] : [add()];
}

/** Makes room for an address whose earlier attachment was not deleted, or not to the end. */
function forgetOther(nftables: Nftables, { family, ip }: Cidr): Change[] {
  const { map } = familyOf({ family });
  const before = nftables.findElement(TABLE, map, ip);
  return before === undefined ? [] : [delElement(TABLE, map, ip)];
}

/** Lists the deletions of elements whose comments are those of an attachment. */
function ownElements(
  nftables: Nftables,
  isOwn: (comment: string) => boolean,
  addresses: readonly Ip[] | undefined,
): Change[] {
  const known = addresses?.map((ip) => {
    const { map } = familyOf(ip);
    return { map, element: nftables.findElement(TABLE, map, ip) };
  }) ?? [];
  const isComplete = known.length > 0 &&
    known.every(({ element }) => element && isOwn(element.comment));
  const elements = isComplete
    ? known
    : FAMILIES.flatMap(({ map }) =>
      nftables.listElements(TABLE, map).map((element) => ({ map, element }))
    );
  return elements.flatMap(({ map, element }) =>
    element && isOwn(element.comment)
      ? [delElement(TABLE, map, element.key)]
      : []
  );
}

/** Lists the deletions of the Go plugins' rules for an attachment. */
function ownRules(
  nftables: Nftables,
  isOwn: (comment: string) => boolean,
): Change[] {
  return nftables.listRules(TABLE, CHECKS)
    .filter(({ comment }) => isOwn(comment))
    .map(({ handle }) => delRuleOf(TABLE, CHECKS, handle));
}
