/**
 * Changes to nf_tables, which are committed together.
 *
 * An addition succeeds if the object exists, unless noted otherwise. A deletion
 * fails if the object does not exist.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { Flag } from "../netlink/message.ts";
import { type EncodedRequest, encodeRequest } from "../netlink/socket.ts";
import {
  type Expression,
  INTERFACE_NAME_BYTES,
  isOfXtables,
} from "./expression.ts";
import {
  delChain,
  delElements,
  delRule,
  delTable,
  newChain,
  newElements,
  newRule,
  newSet,
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

/**
 * Types of a set's keys, as `nft` shows them, with their lengths in bytes.
 *
 * Source: nftables include/datatype.h `enum datatypes`; a concatenation has six
 * bits for each part.
 */
const KEY_TYPES = {
  ipv4_addr: { type: 7, length: 4 },
  ipv6_addr: { type: 8, length: 16 },
  ifname: { type: 41, length: INTERFACE_NAME_BYTES },
  "ifname . ifname": { type: 41 << 6 | 41, length: 2 * INTERFACE_NAME_BYTES },
} as const;

/**
 * Tells `nft` that keys are in the byte order of the machine, as names are.
 *
 * Source: libnftnl include/udata.h `NFTNL_UDATA_SET_KEYBYTEORDER`; nftables
 * include/expression.h `BYTEORDER_HOST_ENDIAN`.
 */
const KEYS_IN_HOST_ORDER = new Uint8Array([0, 4, 1, 0, 0, 0]);

/** A set, or a map from keys to verdicts. */
export interface NewSet {
  readonly name: string;
  readonly key: keyof typeof KEY_TYPES;
  /** Whether it maps its keys to verdicts. */
  readonly isVerdictMap?: boolean;
}

/** An element of a set. */
export interface Element {
  readonly key: Bytes;
  /** Of a verdict map: {@linkcode VERDICTS}. */
  readonly verdict?: number | undefined;
  /** "" for none. */
  readonly comment: string;
}

/** Source: `NFT_SET_MAP`, `NFT_DATA_VERDICT`. */
const SET_MAP = 0x8, VERDICT_TYPE = 0xffffff00;

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

/** Adds a set or map. */
export function addSet(
  table: Table,
  { name, key, isVerdictMap }: NewSet,
): Change {
  const { type, length } = KEY_TYPES[key];
  const attributes = {
    table: table.name,
    name,
    keyType: type,
    keyLength: length,
    ...isVerdictMap ? { flags: SET_MAP, dataType: VERDICT_TYPE } : {},
    userData: key === "ifname" ? KEYS_IN_HOST_ORDER : undefined,
    // Identifies the set within a batch, and is required.
    id: 1,
  };
  return encodeRequest(newSet, {
    ...inTable(table),
    flags: Create,
    attributes,
  });
}

/**
 * Adds elements. An existing element keeps its comment. A map's element with
 * another verdict is refused with EBUSY.
 */
export function addElements(
  table: Table,
  set: string,
  elements: readonly Element[],
): Change {
  const attributes = {
    table: table.name,
    set,
    elements: elements.map(({ key, verdict, comment }) => ({
      key: { value: key },
      data: verdict === undefined ? undefined : { verdict: { code: verdict } },
      comment: comment || undefined,
    })),
  };
  return encodeRequest(newElements, {
    ...inTable(table),
    flags: Create,
    attributes,
  });
}

/** Deletes elements by their keys. */
export function delElementsOf(
  table: Table,
  set: string,
  elements: readonly Pick<Element, "key">[],
): Change {
  const attributes = {
    table: table.name,
    set,
    elements: elements.map(({ key }) => ({ key: { value: key } })),
  };
  return encodeRequest(delElements, { ...inTable(table), attributes });
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
