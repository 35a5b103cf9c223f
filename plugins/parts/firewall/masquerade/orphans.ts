/**
 * Orphaned masquerades: rules of nftables, and rules of iptables that netlink shows.
 *
 * @module
 */

import type {
  Orphan,
  OrphanFinder,
  OrphanSearch,
} from "../../../../metadata/orphans.ts";
import type { Table } from "../../../../ffi/nftables/change.ts";
import {
  verdictOf,
  xtablesCommentOf,
} from "../../../../ffi/nftables/expression.ts";
import { nftTableOf } from "../iptables/nft_table.ts";
import { addressesIn, isWhole } from "../orphan_elements.ts";
import {
  parseInstance,
  parseQuoted,
  uniqueIps,
} from "../../owner/comment_owner.ts";
import { openNftables } from "../open_nftables.ts";
import { delIptablesNftMasquerade } from "./iptables_nft.ts";
import { namesOf } from "./names.ts";
import { delMasquerade } from "./nftables.ts";

const MASQUERADE: Table = { family: "inet", name: "cni_plugins_masquerade" };
const MASQUERADE_RULES = "masq_checks";

/** Finders of plugins that masquerade. */
export const MASQUERADES: readonly OrphanFinder[] = [
  findMasquerades,
  findIptablesMasquerades,
];

async function findMasquerades(
  search: OrphanSearch,
): Promise<Orphan[]> {
  using nftables = openNftables(search.hostNetns);
  if (nftables === undefined) return [];
  const rules = nftables.listRules(MASQUERADE, MASQUERADE_RULES);
  const orphans: Orphan[] = [];
  for (const [comment, own] of Map.groupBy(rules, ({ comment }) => comment)) {
    const owner = parseInstance(comment);
    if (owner === undefined) continue;
    const reason = search.evidence.findReason({
      container: owner.container,
      isTruncated: !await isWhole(owner),
      addresses: uniqueIps(own.flatMap(addressesIn)),
    });
    if (reason === undefined) continue;
    orphans.push({
      kind: "nftables",
      where:
        `${own.length} rules of table ${MASQUERADE.family} ${MASQUERADE.name}`,
      container: owner.container,
      network: owner.network,
      ...reason,
      async remove(): Promise<void> {
        using nftables = openNftables(search.hostNetns);
        if (nftables) await delMasquerade(nftables, owner);
      },
    });
  }
  return orphans;
}

/** The masquerade rules of iptables-nft, which are read without a program. */
async function findIptablesMasquerades(
  search: OrphanSearch,
): Promise<Orphan[]> {
  using nftables = openNftables(search.hostNetns);
  if (nftables === undefined) return [];
  const found = ([4, 6] as const).flatMap((family) =>
    nftables.listRules(nftTableOf("nat", family), "POSTROUTING")
      .filter((rule) => rule.mentions("CNI-"))
      .map((rule) => ({ rule, table: nftTableOf("nat", family) }))
  );
  const orphans: Orphan[] = [];
  const chains = Map.groupBy(
    found,
    ({ rule }) => verdictOf(rule.expressions)?.chain ?? "",
  );
  for (const [chain, rules] of chains) {
    const [first] = rules;
    const owner = first &&
      parseQuoted(xtablesCommentOf(first.rule.expressions));
    if (!owner) continue;
    const { network, container: containerId } = owner;
    const names = await namesOf({ network, containerId, ifName: "" });
    // A different program's rule, or a comment that does not name the owner.
    if (names.chain !== chain) continue;
    const reason = search.evidence.findReason({
      container: containerId,
      addresses: uniqueIps(rules.flatMap(({ rule }) => addressesIn(rule))),
    });
    if (reason === undefined) continue;
    orphans.push({
      kind: "iptables",
      where: `chain ${chain} of table nat`,
      container: containerId,
      network,
      ...reason,
      async remove(): Promise<void> {
        using nftables = openNftables(search.hostNetns);
        if (nftables === undefined) return;
        await delIptablesNftMasquerade(nftables, { chain }, () => true);
      },
    });
  }
  return orphans;
}
