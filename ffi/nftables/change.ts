/**
 * Changes to nf_tables, which are committed together.
 *
 * An addition succeeds if the object exists, unless noted otherwise. A deletion
 * fails if the object does not exist.
 *
 * @module
 */

import { Flag } from "../netlink/message.ts";
import { type EncodedRequest, encodeRequest } from "../netlink/socket.ts";
import { type Expression, isOfXtables } from "./expression.ts";
import {
  delChain,
  delRule,
  delTable,
  newChain,
  newRule,
  newTable,
  TableFamily,
  type TableFamilyName,
} from "./message.ts";

/** A change to commit. */
export type Change = EncodedRequest;

/** A table. */
export interface Table {
  readonly family: TableFamilyName;
  readonly name: string;
}

/** The hooks of base chains. Source: `enum nf_inet_hooks`. */
const HOOKS = {
  prerouting: 0,
  input: 1,
  forward: 2,
  output: 3,
  postrouting: 4,
} as const;

/** The type, hook and priority of a base chain, which the kernel calls. */
export interface BaseChain {
  readonly type: "filter" | "nat" | "route";
  readonly hook: keyof typeof HOOKS;
  /** Lower values run earlier. */
  readonly priority: number;
  readonly comment?: string | undefined;
}

/** Source: `NFT_TABLE_F_DORMANT`. */
const TABLE_DORMANT = 0x1;

const { Create, Append } = Flag;

/** Adds a table. */
export function addTable(table: Table, comment?: string): Change {
  return newTableOf(table, { comment });
}

/**
 * Adds a table that the kernel does not call, so trying changes in it does not
 * affect packets.
 */
export function addDormantTable(table: Table): Change {
  return newTableOf(table, { flags: TABLE_DORMANT });
}

function newTableOf(
  table: Table,
  more: { readonly comment?: string | undefined; readonly flags?: number },
): Change {
  const attributes = { name: table.name, ...more };
  return encodeRequest(newTable, {
    ...inTable(table),
    flags: Create,
    attributes,
  });
}

/** Deletes a table and its content. */
export function delTableOf(table: Table): Change {
  const attributes = { name: table.name };
  return encodeRequest(delTable, { ...inTable(table), attributes });
}

/** Adds a chain: a base chain if `base` is given. */
export function addChain(
  table: Table,
  name: string,
  base?: BaseChain,
): Change {
  const attributes = {
    table: table.name,
    name,
    hook: base && { number: HOOKS[base.hook], priority: base.priority },
    type: base?.type,
    comment: base?.comment,
  };
  return encodeRequest(newChain, {
    ...inTable(table),
    flags: Create,
    attributes,
  });
}

/** Deletes a chain, which must be empty and unreferenced. */
export function delChainOf(table: Table, name: string): Change {
  const attributes = { table: table.name, name };
  return encodeRequest(delChain, { ...inTable(table), attributes });
}

/** A rule to add. */
export interface NewRule {
  readonly chain: string;
  readonly expressions: readonly Expression[];
  readonly comment?: string | undefined;
}

/** Appends a rule to its chain. */
export function appendRule(table: Table, rule: NewRule): Change {
  return newRuleOf(table, rule, Create | Append);
}

/** Prepends a rule to its chain. */
export function prependRule(table: Table, rule: NewRule): Change {
  return newRuleOf(table, rule, Create);
}

function newRuleOf(
  table: Table,
  { chain, expressions, comment }: NewRule,
  flags: number,
): Change {
  const attributes = {
    table: table.name,
    chain,
    expressions: [...expressions],
    compat: expressions.some(isOfXtables)
      ? { protocol: 0, flags: 0 }
      : undefined,
    comment,
  };
  return encodeRequest(newRule, { ...inTable(table), flags, attributes });
}

/** Deletes a rule. */
export function delRuleOf(table: Table, chain: string, handle: bigint): Change {
  const attributes = { table: table.name, chain, handle };
  return encodeRequest(delRule, { ...inTable(table), attributes });
}

/** Deletes all rules of a chain. */
export function flushChain(table: Table, chain: string): Change {
  const attributes = { table: table.name, chain };
  return encodeRequest(delRule, { ...inTable(table), attributes });
}

function inTable({ family }: Table): { header: { family: number } } {
  return { header: { family: TableFamily[family] } };
}
