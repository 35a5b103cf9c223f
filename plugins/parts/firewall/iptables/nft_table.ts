/**
 * The tables of iptables-nft in nf_tables.
 *
 * Source: iptables iptables/nft.c.
 *
 * @module
 */

import {
  addChain,
  addDormantTable,
  appendRule,
  type Change,
  type Table,
} from "../../../../ffi/nftables/change.ts";
import { decide, xtablesComment } from "../../../../ffi/nftables/expression.ts";
import type { Nftables } from "../../../../ffi/nftables/mod.ts";
import type { IpFamily } from "../../../../net/ip.ts";
import { BackendMissing } from "./find.ts";
import type { TableName } from "./program.ts";

/** The base chains of each table, with iptables' names. */
const BASE_CHAINS: Readonly<Record<TableName, readonly string[]>> = {
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
  filter: ["INPUT", "FORWARD", "OUTPUT"],
};

/** A table of iptables-nft. */
export interface NftTable extends Table {
  readonly name: TableName;
}

/** Returns a table of iptables-nft. */
export function nftTableOf(name: TableName, family: IpFamily): NftTable {
  return { family: family === 4 ? "ip" : "ip6", name };
}

/**
 * Checks that a table does not belong to a different program: iptables-nft refuses a
 * table with foreign base chains.
 *
 * @throws {BackendMissing} If iptables cannot use the table
 */
export function refuseForeignChains(
  nftables: Nftables,
  table: NftTable,
): void {
  const foreign = nftables.listChains(table)
    .find(({ name, isBase }) =>
      isBase && !BASE_CHAINS[table.name].includes(name)
    );
  if (foreign === undefined) return;
  throw new BackendMissing(
    `table ${table.family} ${table.name} is not for iptables: it has chain "${foreign.name}"`,
  );
}

/**
 * Lists changes that test whether the kernel supports the extensions of iptables.
 * They need not be committed, and do not affect packets.
 */
export function probeOfIptablesNft(): Change[] {
  const table: Table = { family: "ip", name: "cni_plugins_probe" };
  const chain = "POSTROUTING";
  const expressions = [xtablesComment("probe"), decide("accept")];
  return [
    addDormantTable(table),
    addChain(table, chain, { type: "nat", hook: "postrouting", priority: 100 }),
    appendRule(table, { chain, expressions }),
  ];
}
