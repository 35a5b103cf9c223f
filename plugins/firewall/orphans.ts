/**
 * Orphans of firewall, of this project and of the Go plugin: elements of
 * nftables, and rules of iptables for addresses.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { eachIptables } from "../parts/firewall/iptables/places.ts";
import type { Iptables } from "../parts/firewall/iptables/program.ts";
import { changeRules, deleteLineOf } from "../parts/firewall/iptables/rules.ts";
import { elementFinder } from "../parts/firewall/orphan_elements.ts";
import {
  addressIn,
  hostTableOf,
  listTableRules,
  searchIptables,
} from "../parts/firewall/orphan_iptables.ts";

const FORWARD = "CNI-FORWARD";
/** The two rules for an address. */
const ADDRESS_RULE =
  /^-A CNI-FORWARD (?:-s \S+ -j ACCEPT|-d \S+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT)$/;

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  finders: [
    elementFinder(
      { family: "inet", name: "cni_firewall" },
      async () => (await import("./plugin.ts")).firewall as Plugin,
    ),
    findRules,
  ],
};

async function findRules(search: OrphanSearch): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  await searchIptables(search, "filter", FORWARD, async (iptables) => {
    orphans.push(...await findAddresses(search, iptables));
  });
  return orphans;
}

async function findAddresses(
  search: OrphanSearch,
  iptables: Iptables,
): Promise<Orphan[]> {
  const rules = (await listTableRules(iptables))
    .filter((rule) => ADDRESS_RULE.test(rule));
  const byAddress = Map.groupBy(rules, (rule) => String(addressIn(rule)[0]));
  return [...byAddress].flatMap(([address, own]) => {
    const ips = own.slice(0, 1).flatMap(addressIn);
    const reason = ips.length === 0
      ? undefined
      : search.evidence.findReason({ addresses: ips });
    if (reason === undefined) return [];
    return [{
      kind: "iptables",
      where: `rules of ${address} in chain ${FORWARD}`,
      container: "",
      network: "",
      ...reason,
      async remove(): Promise<void> {
        // The address might already belong to a new container, which has
        // identical rules.
        const evidence = await search.renew();
        if (!evidence.findReason({ addresses: ips })) return;
        await eachIptables(
          hostTableOf(search, iptables.table),
          [FORWARD],
          (iptables) =>
            changeRules(
              iptables,
              async () =>
                (await listTableRules(iptables)).filter((rule) =>
                  own.includes(rule)
                )
                  .map(deleteLineOf),
            ),
        );
      },
    }];
  });
}
