/**
 * The tables that can contain rules of containers.
 *
 * @module
 */

import { FIREWALLD_TABLE } from "../../ffi/removals.ts";

/** Tables of this project and of the Go plugins. */
const OWN_TABLE = /^cni_/;
/** Tables of `iptables` and `ebtables`, and the chains and sets in them. */
const SHARED_TABLE = /^(?:nat|filter)$/;
const BUILT_IN_CHAIN = /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;
const OWN_CHAIN = /^(?:CNI-|cni-)/;

/**
 * Reports whether a table of nftables can contain rules of containers: programs such as
 * kube-proxy and netavark often remove rules from their own tables.
 *
 * @param part Name of a chain or set of the table; undefined for the whole table
 */
export function mayHaveOwnRules(
  table: string,
  part: string | undefined,
): boolean {
  if (OWN_TABLE.test(table) || table === FIREWALLD_TABLE) return true;
  return SHARED_TABLE.test(table) &&
    (part === undefined || BUILT_IN_CHAIN.test(part) || OWN_CHAIN.test(part));
}
