/**
 * Changes to nf_tables, which are committed together.
 *
 * An addition succeeds if the object exists, unless noted otherwise. A deletion
 * fails if the object does not exist.
 *
 * @module
 */

import { alignUp, type Bytes, concat } from "../../net/bytes.ts";
import { IFNAMSIZ } from "../../net/interface_name.ts";
import { Flag } from "../netlink/message.ts";
import { type EncodedRequest, encodeRequest } from "../netlink/request.ts";
import { type Expression, isOfXtables } from "./expression.ts";
import {
  delChain,
  delElements,
  delRule,
  delSet,
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
  /** The packets that it receives. */
  readonly family: TableFamilyName;
  /** Its name, unique in the family. */
  readonly name: string;
}

/** The hooks of base chains. Source: `enum nf_inet_hooks`. */
const HOOKS: Readonly<Record<Hook, number>> = {
  prerouting: 0,
  input: 1,
  forward: 2,
  output: 3,
  postrouting: 4,
  ingress: 0,
};
/**
 * The hooks of base chains of family arp. Source: include/uapi/linux/netfilter_arp.h
 * `NF_ARP_*`.
 */
const ARP_HOOKS: Readonly<Partial<Record<Hook, number>>> = {
  input: 0,
  output: 1,
};

/** A hook of the kernel. */
export type Hook =
  | "prerouting"
  | "input"
  | "forward"
  | "output"
  | "postrouting"
  | "ingress";

/** The type, hook and priority of a base chain, which the kernel calls. */
export interface BaseChain {
  /** The actions that its rules can take. */
  readonly type: "filter" | "nat" | "route";
  /** When the kernel calls it. */
  readonly hook: Hook;
  /** Lower values run earlier. */
  readonly priority: number;
  /** The link, in a table of family netdev. */
  readonly device?: string | undefined;
  /** Shown by `nft`. */
  readonly comment?: string | undefined;
}

/**
 * Types of values in sets, as `nft` shows them, with their lengths in bytes.
 *
 * Source: nftables include/datatype.h `enum datatypes`.
 */
const VALUE_TYPES = {
  ipv4_addr: { type: 7, length: 4 },
  ipv6_addr: { type: 8, length: 16 },
  inet_proto: { type: 12, length: 1 },
  inet_service: { type: 13, length: 2 },
  ifname: { type: 41, length: IFNAMSIZ },
} as const;
/** Source: nftables include/datatype.h `TYPE_BITS`. */
const TYPE_BITS = 6;
/** Joined values begin on this boundary, like registers. */
const VALUE_ALIGNMENT = 4;

/**
 * Makes `nft` read keys in the machine's byte order, as for names.
 *
 * Source: libnftnl include/udata.h `NFTNL_UDATA_SET_KEYBYTEORDER`; nftables
 * include/expression.h `BYTEORDER_HOST_ENDIAN`.
 */
const KEYS_IN_HOST_ORDER = new Uint8Array([0, 4, 1, 0, 0, 0]);

/** Type of a value in a set. */
export type ValueType =
  | "ipv4_addr"
  | "ipv6_addr"
  | "inet_proto"
  | "inet_service"
  | "ifname";
/** Types of joined values, as `nft` spells them. */
export type ValueTypes =
  | ValueType
  | `${ValueType} . ${ValueType}`
  | `${ValueType} . ${ValueType} . ${ValueType}`;

/** A set, or a map from keys to verdicts or values. */
export interface NewSet {
  /** Its name, unique in the table. */
  readonly name: string;
  /** Types of its values, or of the keys of a map. */
  readonly key: ValueTypes;
  /** Whether it maps its keys to verdicts. */
  readonly isVerdictMap?: boolean;
  /** The values to which a map maps its keys. */
  readonly data?: ValueTypes | undefined;
}

/** An element of a set. Its values are joined by {@linkcode joinValues}. */
export interface Element {
  /** Its value, or its key in a map. */
  readonly key: Bytes;
  /** The value of an element, in a map to values. */
  readonly data?: Bytes | undefined;
  /** The verdict of an element, in a verdict map: {@linkcode VERDICTS}. */
  readonly verdict?: number | undefined;
  /** The chain of a verdict that jumps, as listed. */
  readonly chain?: string | undefined;
  /** Whether it ends the interval that the element before it begins, as listed. */
  readonly isEnd?: boolean | undefined;
  /** The comment; "" for none. */
  readonly comment: string;
  /** A text for programs, which `nft` does not show; "" for none. */
  readonly label?: string | undefined;
}

/** Source: `NFT_SET_MAP`, `NFT_DATA_VERDICT`. */
const SET_MAP = 0x8, VERDICT_TYPE = 0xffffff00;

/** Source: `NFT_TABLE_F_DORMANT`. */
const TABLE_DORMANT = 0x1;
/** Source: `NFT_TABLE_F_OWNER`. */
const TABLE_OWNER = 0x2;

const { Create, Append, Exclusive } = Flag;

/** Adds a table. */
export function addTable(table: Table, comment?: string): Change {
  return newTableOf(table, { comment });
}

/**
 * Adds a table that the kernel does not call, so that trial changes in it do not
 * affect packets.
 */
export function addDormantTable(table: Table): Change {
  return newTableOf(table, { flags: TABLE_DORMANT });
}

/**
 * Adds a table that exists as long as the socket that adds it, so that a killed
 * process leaves none. Refused with EINVAL or EOPNOTSUPP before Linux 5.12.
 */
export function addOwnTable(table: Table): Change {
  return newTableOf(table, { flags: TABLE_OWNER });
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
    hook: base && {
      number: table.family === "arp" ? ARP_HOOKS[base.hook] : HOOKS[base.hook],
      priority: base.priority,
      device: base.device,
    },
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
  { name, key, isVerdictMap, data }: NewSet,
): Change {
  const attributes = {
    table: table.name,
    name,
    keyType: typeNumberOf(key),
    keyLength: lengthOf(key),
    ...isVerdictMap ? { flags: SET_MAP, dataType: VERDICT_TYPE } : {},
    ...data && {
      flags: SET_MAP,
      dataType: typeNumberOf(data),
      dataLength: lengthOf(data),
    },
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

/** Deletes a set or map that no rule uses. */
export function delSetOf(table: Table, name: string): Change {
  const attributes = { table: table.name, name };
  return encodeRequest(delSet, { ...inTable(table), attributes });
}

/**
 * Adds elements. An existing element keeps its comment. A map's element with a
 * different value is refused with EBUSY.
 */
export function addElements(
  table: Table,
  set: string,
  elements: readonly Element[],
): Change {
  return newElementsOf(table, set, elements, Create);
}

/** Adds elements; refused with EEXIST if the set already contains one of the keys. */
export function addNewElements(
  table: Table,
  set: string,
  elements: readonly Element[],
): Change {
  return newElementsOf(table, set, elements, Create | Exclusive);
}

function newElementsOf(
  table: Table,
  set: string,
  elements: readonly Element[],
  flags: number,
): Change {
  const attributes = {
    table: table.name,
    set,
    elements: elements.map(({ key, data, verdict, comment, label = "" }) => ({
      key: { value: key },
      data: data && { value: data } ||
        (verdict === undefined ? undefined : { verdict: { code: verdict } }),
      texts: comment || label ? { comment, label } : undefined,
    })),
  };
  return encodeRequest(newElements, { ...inTable(table), flags, attributes });
}

/** Joins the values of a key or of an element's data. */
export function joinValues(...values: readonly Bytes[]): Bytes {
  return concat(values.map((value) => {
    const padded = new Uint8Array(alignUp(value.length, VALUE_ALIGNMENT));
    padded.set(value);
    return padded;
  }));
}

/** Splits values that {@linkcode joinValues} joined. */
export function splitValues(joined: Bytes, types: ValueTypes): Bytes[] {
  let start = 0;
  return typesOf(types).map(({ length }) => {
    const value = joined.slice(start, start + length);
    start += alignUp(length, VALUE_ALIGNMENT);
    return value;
  });
}

function typeNumberOf(types: ValueTypes): number {
  return typesOf(types).reduce(
    (joined, { type }) => joined << TYPE_BITS | type,
    0,
  );
}

function lengthOf(types: ValueTypes): number {
  const lengths = typesOf(types).map(({ length }) => length);
  if (lengths.length === 1) return lengths[0] ?? 0;
  return lengths.reduce(
    (sum, length) => sum + alignUp(length, VALUE_ALIGNMENT),
    0,
  );
}

function typesOf(
  types: ValueTypes,
): readonly { readonly type: number; readonly length: number }[] {
  return types.split(" . ").map((name) => VALUE_TYPES[name as ValueType]);
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
  /** Name of its chain. */
  readonly chain: string;
  /** Its matches and its action. */
  readonly expressions: readonly Expression[];
  /** Shown by `nft`. */
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
