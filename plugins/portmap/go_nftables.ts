/**
 * Port mappings that the Go plugin has added to nftables.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/portmap_nftables.go.
 *
 * @module
 */

import {
  type Change,
  delRuleOf,
  type Table,
} from "../../ffi/nftables/change.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import type { IpFamily } from "../../net/ip.ts";
import { type Forwarding, portsOf } from "./mapping.ts";

const TABLES: Readonly<Record<IpFamily, Table>> = {
  4: { family: "ip", name: "cni_hostport" },
  6: { family: "ip6", name: "cni_hostport" },
};
const HOSTPORTS = "hostports", MASQUERADING = "masquerading";
/** All chains with rules of containers. Only older releases use the second. */
const CHAINS: readonly string[] = [
  HOSTPORTS,
  "hostip_hostports",
  MASQUERADING,
];

/** Lists the changes that delete a container's rules, on all its networks. */
export function delGoRules(
  nftables: Nftables,
  containerId: string,
): Change[] {
  return Object.values(TABLES)
    .filter((table) => nftables.hasChain(table, HOSTPORTS))
    .flatMap((table) =>
      CHAINS.flatMap((chain) =>
        listRulesOf(nftables, { table, chain, containerId })
          .map(({ handle }) => delRuleOf(table, chain, handle))
      )
    );
}

/**
 * Reports whether containers have ports of IPv4 by the Go plugin.
 *
 * @param removed ID of a container that is being removed and does not count
 */
export function hasAnyGoRules(nftables: Nftables, removed?: string): boolean {
  return CHAINS.filter((chain) => chain !== MASQUERADING)
    .flatMap((chain) => nftables.listRules(TABLES[4], chain))
    .some(({ comment }) => comment !== removed);
}

/** Reports whether the Go plugin has added as many rules as it would. */
export function hasGoRules(
  nftables: Nftables,
  forwarding: Forwarding,
): boolean {
  const { containerId } = forwarding.owner;
  const ports = portsOf(forwarding);
  return forwarding.addresses.every(({ family }) => {
    const table = TABLES[family];
    const count = (chain: string): number =>
      listRulesOf(nftables, { table, chain, containerId }).length;
    const own = ports.filter(({ target }) => target.family === family);
    return count(HOSTPORTS) >= own.length &&
      count(MASQUERADING) >= masquerades(forwarding, family);
  });
}

function masquerades(
  { snat, masqAll }: Forwarding,
  family: IpFamily,
): number {
  if (!snat) return 0;
  return family === 4 && !masqAll ? 2 : 1;
}

/** The Go plugin's comments are the container's ID. */
function listRulesOf(
  nftables: Nftables,
  { table, chain, containerId }: {
    readonly table: Table;
    readonly chain: string;
    readonly containerId: string;
  },
): Rule[] {
  return nftables.listRules(table, chain).filter((rule) =>
    rule.mentions(containerId) && rule.comment === containerId
  );
}
