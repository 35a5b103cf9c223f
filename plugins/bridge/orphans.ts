/**
 * Orphans of bridge: rules against forged MACs, and masquerades.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import {
  type Change,
  delChainOf,
  delRuleOf,
  flushChain,
  type Table,
} from "../../ffi/nftables/change.ts";
import { inputNameOf } from "../../ffi/nftables/expression.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { commitIn } from "../parts/firewall/orphan_elements.ts";
import { MASQUERADES } from "../parts/firewall/masquerade/orphans.ts";
import { openNftables } from "../parts/firewall/open_nftables.ts";

const SPOOFING: Table = { family: "bridge", name: "nat" };
const SPOOFING_COMMENT = "macspoofchk-", SPOOFING_CHAIN = "cni-br-iface-";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  finders: [...MASQUERADES, findSpoofing],
};

/** Rules against forged MACs: of links that no longer exist. */
function findSpoofing(search: OrphanSearch): Orphan[] {
  using nftables = openNftables(search.hostNetns);
  if (nftables === undefined) return [];
  const rules = nftables.listRules(SPOOFING, "PREROUTING")
    .filter(({ comment }) => comment.startsWith(SPOOFING_COMMENT));
  if (rules.length === 0) return [];
  using host = Rtnl.open(search.hostNetns);
  const links = new Set(host.link.list().map(({ name }) => name));
  return rules.flatMap(({ comment, expressions }) => {
    const link = inputNameOf(expressions);
    if (link === "" || links.has(link)) return [];
    const id = comment.slice(SPOOFING_COMMENT.length);
    const container = id.replace(/-[^-]*$/, "");
    const reason = search.evidence.findReason({ container, isTruncated: true });
    if (reason === undefined) return [];
    return [{
      kind: "nftables",
      where: `chain ${SPOOFING_CHAIN}${id} of table bridge nat`,
      container,
      network: "",
      why: `link ${link} no longer exists`,
      remove: () =>
        commitIn(search, (nftables) => delSpoofing(nftables, comment)),
    }];
  });
}

function delSpoofing(nftables: Nftables, comment: string): Change[] {
  const first = SPOOFING_CHAIN + comment.slice(SPOOFING_COMMENT.length);
  const chains = [first, `${first}-mac`]
    .filter((chain) => nftables.hasChain(SPOOFING, chain));
  return [
    ...nftables.listRules(SPOOFING, "PREROUTING")
      .filter((rule) => rule.comment === comment)
      .map(({ handle }) => delRuleOf(SPOOFING, "PREROUTING", handle)),
    ...chains.map((chain) => flushChain(SPOOFING, chain)),
    ...chains.map((chain) => delChainOf(SPOOFING, chain)),
  ];
}
