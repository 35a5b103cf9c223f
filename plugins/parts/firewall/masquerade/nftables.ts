/**
 * Masquerades in its own table of nftables.
 *
 * ```
 * table inet cni_plugins_masquerade {
 *   chain masq_checks {
 *     ip saddr 10.1.2.5 ip daddr != 10.1.2.0/24 masquerade comment "<attachment>"
 *     …
 *   }
 *   chain postrouting { type nat hook postrouting priority srcnat
 *     ip daddr 224.0.0.0/4 return
 *     ip6 daddr ff00::/8 return
 *     goto masq_checks
 *   }
 * }
 * ```
 *
 * Table, chains, rules and comments are the same as the Go plugins', so each side
 * removes the other side's rules: DEL and GC find rules by their comments. A map
 * would be faster than a list of rules, but the Go plugins cannot delete elements.
 * Only the first packet of a connection passes a nat chain. With an outbound address,
 * `snat` replaces `masquerade`.
 *
 * The last DEL removes the table.
 *
 * Source: containernetworking/plugins pkg/ip/ipmasq_nftables_linux.go.
 *
 * @module
 */

import {
  addChain,
  addDormantTable,
  addTable,
  appendRule,
  type BaseChain,
  type Change,
  delRuleOf,
  delTableOf,
  type Table,
} from "../../../../ffi/nftables/change.ts";
import {
  comparedValues,
  decide,
  goTo,
  masquerade,
  matchFamily,
  matchNetwork,
  newSourceOf,
  translateSource,
} from "../../../../ffi/nftables/expression.ts";
import type {
  FoundRules,
  Nftables,
  Rule,
} from "../../../../ffi/nftables/mod.ts";
import { Cidr } from "../../../../net/cidr.ts";
import type { Ip } from "../../../../net/ip.ts";
import { commitUnlessDisturbed } from "../commit_unless_disturbed.ts";
import { staleAmong } from "../../owner/owned.ts";
import {
  findOutbound,
  instanceIn,
  type MasqueradeNames,
  type MasqueradeRules,
  MULTICAST,
} from "./names.ts";

const TABLE: Table = { family: "inet", name: "cni_plugins_masquerade" };
const TABLE_COMMENT = "Masquerading for CNI plugins";
const POSTROUTING = "postrouting", CHECKS = "masq_checks";

/**
 * The hook and priority of masquerading.
 *
 * Source: include/uapi/linux/netfilter_ipv4.h `NF_IP_PRI_NAT_SRC`.
 */
export const SOURCE_NAT: BaseChain = {
  type: "nat",
  hook: "postrouting",
  priority: 100,
};

/**
 * Masquerades packets from the addresses to destinations outside their subnets.
 * Replaces rules of an earlier attachment with the same names.
 *
 * @throws {NetlinkError} If the kernel refuses; nothing is then changed
 */
export async function addMasquerade(
  nftables: Nftables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Promise<void> {
  const rules = addresses.map((address) => ruleOf(address, names));
  await commitUnlessDisturbed(nftables, () => [
    ...missingSkeleton(nftables),
    ...findOwn(nftables, names).rules.map(deletion),
    ...rules,
  ]);
}

/** Removes all rules of an attachment. */
export async function delMasquerade(
  nftables: Nftables,
  names: Pick<MasqueradeNames, "instance">,
): Promise<void> {
  await commitUnlessDisturbed(
    nftables,
    () => removal(findOwn(nftables, names)),
  );
}

/** Removes the rules of attachments to the network other than these. */
export async function delStaleMasquerade(
  nftables: Nftables,
  networkHash: string,
  valid: readonly MasqueradeNames[],
): Promise<void> {
  const { isMeant } = staleAmong(networkHash, valid);
  await commitUnlessDisturbed(nftables, () => {
    const all = nftables.listRules(TABLE, CHECKS);
    const rules = all.filter(isMeant);
    return removal({ rules, hasOthers: rules.length < all.length });
  });
}

/** Lists the attachment's addresses that are not masqueraded. */
export function listUnmasqueraded(
  nftables: Nftables,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Cidr[] {
  if (nftables.listRules(TABLE, POSTROUTING).length === 0) {
    return [...addresses];
  }
  const present = findOwn(nftables, names).rules.map(({ expressions }) => ({
    source: newSourceOf(expressions)?.toHex(),
    values: comparedValues(expressions).map((value) => value.toHex()),
  }));
  return addresses.filter(({ ip }) => {
    const wanted = bytesOf(findOutbound(names, ip.family)).toHex();
    return !present.some(({ source, values }) =>
      source === wanted && values.includes(bytesOf(ip).toHex())
    );
  });
}

function bytesOf(ip: Ip | undefined): Uint8Array<ArrayBuffer> {
  return new Uint8Array(ip?.toBytes() ?? []);
}

/**
 * Lists changes that test whether the kernel supports such rules; Linux before
 * 5.2 refuses them. They need not be committed, and do not affect packets.
 */
export function probeOfMasquerade(): Change[] {
  const table: Table = { ...TABLE, name: `${TABLE.name}_probe` };
  return [addDormantTable(table), addChain(table, POSTROUTING, SOURCE_NAT)];
}

function findOwn(
  nftables: Nftables,
  { instance }: Pick<MasqueradeNames, "instance">,
): FoundRules {
  return nftables.findRules(TABLE, CHECKS, instanceIn, instance);
}

function deletion({ handle }: Rule): Change {
  return delRuleOf(TABLE, CHECKS, handle);
}

/** Lists the changes that remove rules, and the table if no other rules remain. */
function removal({ rules, hasOthers }: FoundRules): Change[] {
  return rules.length > 0 && !hasOthers
    ? [delTableOf(TABLE)]
    : rules.map(deletion);
}

function ruleOf(address: Cidr, names: MasqueradeRules): Change {
  const outbound = findOutbound(names, address.family);
  const expressions = [
    ...matchFamily(address.family),
    ...matchNetwork("source", "==", Cidr.host(address.ip)),
    ...matchNetwork("destination", "!=", address),
    ...outbound ? translateSource(outbound) : [masquerade()],
  ];
  const { comment } = names;
  return appendRule(TABLE, { chain: CHECKS, expressions, comment });
}

/** Lists the changes that add the missing parts that all attachments share. */
function missingSkeleton(nftables: Nftables): Change[] {
  const rules = nftables.listRules(TABLE, POSTROUTING);
  if (rules.some((rule) => rule.mentions(CHECKS))) return [];
  const returns = Object.values(MULTICAST).map((multicast) => [
    ...matchFamily(multicast.family),
    ...matchNetwork("destination", "==", multicast),
    decide("return"),
  ]);
  return [
    addTable(TABLE, TABLE_COMMENT),
    addChain(TABLE, CHECKS),
    addChain(TABLE, POSTROUTING, SOURCE_NAT),
    ...[...returns, [goTo(CHECKS)]].map((expressions) =>
      appendRule(TABLE, { chain: POSTROUTING, expressions })
    ),
  ];
}
