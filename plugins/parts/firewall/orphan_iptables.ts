/**
 * Searches iptables for orphans. Programs run only if the kernel has the chains.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import type { OrphanSearch } from "../../../metadata/orphans.ts";
import { Ip, unlessNoAddress } from "../../../net/ip.ts";
import { eachIptables, type HostTable } from "./iptables/places.ts";
import {
  type Iptables,
  optionsOf,
  type TableName,
} from "./iptables/program.ts";
import { listTable } from "./iptables/rules.ts";

/** Searches each iptables that contains a chain; logs failed searches. */
export async function searchIptables(
  search: OrphanSearch,
  table: TableName,
  chain: string,
  work: (iptables: Iptables) => Promise<void>,
): Promise<void> {
  try {
    await eachIptables(hostTableOf(search, table), [chain], work);
  } catch (error) {
    search.log.warn("Cannot search iptables", { error: describeError(error) });
  }
}

/** Returns a table of the search's host. */
export function hostTableOf(
  { hostNetns, env, log }: OrphanSearch,
  table: TableName,
): HostTable {
  return { hostNetns, path: env["PATH"], table, isNamed: false, log };
}

/**
 * Returns a container's address in a rule: the packets' source, or the target of
 * ports.
 */
export function addressIn(rule: string): Ip[] {
  const option = optionsOf(rule);
  const target = option("--to-destination")?.replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1");
  const source = rule.startsWith("-A POSTROUTING ") ||
      rule.startsWith("-A CNI-FORWARD ")
    ? option("-s") ?? option("-d")
    : undefined;
  return [target, source].flatMap((text) => {
    const [address = "", length] = text?.split("/") ?? [];
    const ip = unlessNoAddress(() => Ip.parse(address));
    const isHost = ip && (length ?? ip.bitLength) === String(ip.bitLength) ||
      length === undefined;
    return ip && isHost ? [ip] : [];
  });
}

/**
 * Lists all rules of a table, as lines `-A CHAIN …`.
 *
 * @throws {Error} As {@linkcode listTable}
 */
export async function listTableRules(iptables: Iptables): Promise<string[]> {
  return (await listTable(iptables)).filter((line) => line.startsWith("-A "));
}
