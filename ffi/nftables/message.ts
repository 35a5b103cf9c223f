/**
 * Messages of nf_tables, as tables. All numbers are in network byte order.
 *
 * Source: include/uapi/linux/netfilter/nf_tables.h,
 * Documentation/netlink/specs/nftables.yaml.
 *
 * @module
 */

import {
  type Bytes,
  i32be,
  struct,
  u16be,
  u32be,
  u64be,
  u8,
} from "../../net/bytes.ts";
import {
  type AttributeSet,
  attributeSet,
  cstring,
  listOf,
  markedNested,
  nested,
  raw,
  type Row,
  type Rows,
} from "../netlink/attribute.ts";
import { message, type MessageType } from "../netlink/message.ts";
import { comment, elementTexts } from "./comment.ts";

/** Fixed header of all netfilter messages. Source: `struct nfgenmsg`. */
const headerFields = { family: u8, version: u8, resourceId: u16be };

const netfilterHeader = struct(headerFields);

/** The upper byte of a type. Source: `NFNL_SUBSYS_NFTABLES`. */
export const SUBSYSTEM = 10;

/** Families of tables. Source: include/uapi/linux/netfilter.h `NFPROTO_*`. */
export const TableFamily = {
  inet: 1,
  ip: 2,
  arp: 3,
  netdev: 5,
  bridge: 7,
  ip6: 10,
} as const;

/** Name of a {@linkcode TableFamily}, as `nft` spells it. */
export type TableFamilyName =
  | "inet"
  | "ip"
  | "arp"
  | "netdev"
  | "bridge"
  | "ip6";

/** Source: `NFTA_LIST_ELEM`. */
const LIST_ELEMENT = markedNested(1);

/** Source: `NFTA_TABLE_*`. */
const tableAttributes = attributeSet({
  name: [1, cstring],
  flags: [2, u32be],
  comment: [6, comment],
});

/** Source: `NFTA_HOOK_*`. */
const hookAttributes = attributeSet({
  number: [1, u32be],
  priority: [2, i32be],
  device: [3, cstring],
});

/** Source: `NFTA_CHAIN_*`. */
const chainAttributes = attributeSet({
  table: [1, cstring],
  handle: [2, u64be],
  name: [3, cstring],
  hook: [markedNested(4), nested(hookAttributes)],
  policy: [5, u32be],
  type: [7, cstring],
  comment: [12, comment],
});

/** Source: `NFTA_EXPR_*`. The type of `data` depends on `name`. */
const expressionAttributes = attributeSet({
  name: [1, cstring],
  data: [markedNested(2), raw],
});

/** Source: `NFTA_RULE_COMPAT_*`. */
const compatAttributes = attributeSet({
  protocol: [1, u32be],
  flags: [2, u32be],
});

/** Source: `NFTA_RULE_*`. */
export const ruleAttributes = attributeSet({
  table: [1, cstring],
  chain: [2, cstring],
  handle: [3, u64be],
  expressions: [
    markedNested(4),
    listOf(LIST_ELEMENT, nested(expressionAttributes)),
  ],
  compat: [markedNested(5), nested(compatAttributes)],
  comment: [7, comment],
});

/** A rule with undecoded attributes, because a long chain has few relevant rules. */
const undecodedRule: AttributeSet<{ bytes: Row<Bytes> }> = {
  encode: ({ bytes = new Uint8Array(0) }) => bytes,
  decode: (bytes) => ({ bytes }),
  locate: () => undefined,
};

/** Source: `NFTA_VERDICT_*`. */
const verdictAttributes = attributeSet({
  code: [1, i32be],
  chain: [2, cstring],
});

/**
 * The decision of a rule or a policy about a traced packet.
 *
 * Source: `NFTA_TRACE_*`.
 */
const traceAttributes = attributeSet({
  table: [1, cstring],
  chain: [2, cstring],
  handle: [3, u64be],
  type: [4, u32be],
  verdict: [markedNested(5), nested(verdictAttributes)],
  packet: [6, u32be],
  network: [8, raw],
  transport: [9, raw],
  input: [10, u32be],
  output: [12, u32be],
  mark: [14, u32be],
  policy: [16, u32be],
});

/** A value or a verdict. Source: `NFTA_DATA_*`. */
export const dataAttributes = attributeSet({
  value: [1, raw],
  verdict: [markedNested(2), nested(verdictAttributes)],
});

/** Source: `NFTA_SET_*`. */
const setAttributes = attributeSet({
  table: [1, cstring],
  name: [2, cstring],
  flags: [3, u32be],
  keyType: [4, u32be],
  keyLength: [5, u32be],
  dataType: [6, u32be],
  dataLength: [7, u32be],
  id: [10, u32be],
  userData: [13, raw],
  /** Only reported, by Linux 6.15 and later. */
  count: [20, u32be],
});

/** Source: `NFTA_SET_ELEM_*`. */
const elementAttributes = attributeSet({
  key: [markedNested(1), nested(dataAttributes)],
  data: [markedNested(2), nested(dataAttributes)],
  flags: [3, u32be],
  texts: [6, elementTexts],
});

/** Elements of a set. */
export const elementList = listOf(LIST_ELEMENT, nested(elementAttributes));

/** Source: `NFTA_SET_ELEM_LIST_*`. */
const elementsAttributes = attributeSet({
  table: [1, cstring],
  set: [2, cstring],
  elements: [markedNested(3), elementList],
});

/** A change with undecoded elements, because a large set has few relevant elements. */
const undecodedElements = attributeSet({ elements: [3, raw] });

/** The chain of a changed rule, or the set of a changed element. */
const partAttributes = attributeSet({
  table: [1, cstring],
  name: [2, cstring],
});

/** Source: `NFNL_BATCH_GENID`, `NFTA_GEN_ID`. */
const generationAttributes = attributeSet({ generation: [1, u32be] });

/** Source: include/uapi/linux/netfilter/nfnetlink.h `NFNL_MSG_BATCH_*`. */
export const beginBatch = message(
  "NFNL_MSG_BATCH_BEGIN",
  0x10,
  netfilterHeader,
  generationAttributes,
);

/** Ends the batch of {@linkcode beginBatch}. The kernel then makes all changes or none. */
export const endBatch = message(
  "NFNL_MSG_BATCH_END",
  0x11,
  netfilterHeader,
  generationAttributes,
);

/** Declares a kind of message of nf_tables. */
function nft<R extends Rows>(
  name: string,
  number: number,
  attributes: AttributeSet<R>,
): MessageType<typeof headerFields, R> {
  const type = SUBSYSTEM << 8 | number;
  return message(`NFT_MSG_${name}`, type, netfilterHeader, attributes);
}

/** Source: `enum nf_tables_msg_types`. */
export const newTable = nft("NEWTABLE", 0, tableAttributes);
export const getTable = nft("GETTABLE", 1, tableAttributes);
/** Deletes a table and its content. */
export const delTable = nft("DELTABLE", 2, tableAttributes);
export const newChain = nft("NEWCHAIN", 3, chainAttributes);
export const getChain = nft("GETCHAIN", 4, chainAttributes);
/** Deletes an empty chain. */
export const delChain = nft("DELCHAIN", 5, chainAttributes);
export const newRule = nft("NEWRULE", 6, ruleAttributes);
/** Reports a rule of a list. */
export const listedRule = nft("NEWRULE", 6, undecodedRule);
export const getRule = nft("GETRULE", 7, ruleAttributes);
/** Deletes a rule, or all rules of a chain if no handle is given. */
export const delRule = nft("DELRULE", 8, ruleAttributes);
/** Adds or reports a set or map. */
export const newSet = nft("NEWSET", 9, setAttributes);
export const getSet = nft("GETSET", 10, setAttributes);
/** Deletes a set or map. */
export const delSet = nft("DELSET", 11, setAttributes);
/** Adds elements to a set. */
export const newElements = nft("NEWSETELEM", 12, elementsAttributes);
/** Reports some elements of a list, for {@linkcode elementList}. */
export const listedElements = nft("NEWSETELEM", 12, undecodedElements);
/** Requests the elements of a set. */
export const getElements = nft("GETSETELEM", 13, elementsAttributes);
export const delElements = nft("DELSETELEM", 14, elementsAttributes);
/** Any message about rules, sets and elements: the chain or set that has changed. */
export const changedPart = nft("NEWRULE", 6, partAttributes);
/** Reports the generation: the number of commits in the namespace. */
export const newGeneration = nft("NEWGEN", 15, generationAttributes);
export const getGeneration = nft("GETGEN", 16, generationAttributes);
/** Reports a commit, after its changes. */
export const committed = nft(
  "NEWGEN",
  15,
  attributeSet({ processId: [2, u32be], processName: [3, cstring] }),
);
/** Reports a step of a traced packet. */
export const newTrace = nft("TRACE", 17, traceAttributes);
