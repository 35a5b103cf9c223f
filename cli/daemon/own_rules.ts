/**
 * Where rules of containers are.
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
 * Reports whether rules of containers may be in a table of nftables: programs such as
 * kube-proxy and netavark remove rules of their own all the time.
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
