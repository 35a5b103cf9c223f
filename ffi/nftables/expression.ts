/**
 * The expressions of rules. An expression loads a value, compares it, or decides. A
 * failed comparison ends the rule.
 *
 * Source: include/uapi/linux/netfilter/nf_tables.h; libnftnl src/expr/.
 *
 * @module
 */

import {
  type Bytes,
  struct,
  u16,
  u16be,
  u32,
  u32be,
  u64be,
} from "../../net/bytes.ts";
import type { Cidr } from "../../net/cidr.ts";
import { IFNAMSIZ } from "../../net/interface_name.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import type { Mac } from "../../net/mac.ts";
import { ADDRESS_OFFSETS, type AddressField } from "../socket/ip_header.ts";
import {
  attributeSet,
  cstring,
  markedNested,
  nested,
  raw,
} from "../netlink/attribute.ts";
import { dataAttributes } from "./message.ts";

/** One step of a rule. */
export interface Expression {
  /** Its name in the kernel. */
  readonly name: string;
  /** Its attributes, encoded. */
  readonly data: Bytes;
}

/**
 * The register that passes values between steps: its first 16 bytes.
 *
 * Source: `NFT_REG_1`.
 */
const REGISTER = 1;
/** The next 16 bytes. Source: `NFT_REG_2`. */
const NEXT_REGISTER = 2;
/** Source: `NFT_REG_VERDICT`. */
const VERDICT_REGISTER = 0;
/**
 * A different name of the first 4 bytes of {@linkcode REGISTER}. Joined values occupy
 * as many such words as they need.
 *
 * Source: `NFT_REG32_00`.
 */
const FIRST_WORD = 8;
const WORD_BYTES = 4;

/** Source: `NFTA_META_*`. */
const metaAttributes = attributeSet({
  destination: [1, u32be],
  key: [2, u32be],
  source: [3, u32be],
});

/** Source: `NFTA_PAYLOAD_*`. */
const payloadAttributes = attributeSet({
  destination: [1, u32be],
  base: [2, u32be],
  offset: [3, u32be],
  length: [4, u32be],
  source: [5, u32be],
});

/** Source: `NFTA_CMP_*`. */
const compareAttributes = attributeSet({
  source: [1, u32be],
  operator: [2, u32be],
  data: [markedNested(3), nested(dataAttributes)],
});

/** Source: `NFTA_BITWISE_*`. */
const bitwiseAttributes = attributeSet({
  source: [1, u32be],
  destination: [2, u32be],
  length: [3, u32be],
  mask: [markedNested(4), nested(dataAttributes)],
  xor: [markedNested(5), nested(dataAttributes)],
});

/** Source: `NFTA_LOOKUP_*`. */
const lookupAttributes = attributeSet({
  set: [1, cstring],
  source: [2, u32be],
  destination: [3, u32be],
  flags: [5, u32be],
});

/** Source: `NFTA_CT_*`. */
const conntrackAttributes = attributeSet({
  destination: [1, u32be],
  key: [2, u32be],
  source: [4, u32be],
});

/** Source: `NFTA_FIB_*`. */
const fibAttributes = attributeSet({
  destination: [1, u32be],
  result: [2, u32be],
  flags: [3, u32be],
});

/** Source: `NFTA_NAT_*`. */
const natAttributes = attributeSet({
  type: [1, u32be],
  family: [2, u32be],
  address: [3, u32be],
  port: [5, u32be],
});

/** Source: `NFTA_IMMEDIATE_*`. */
const immediateAttributes = attributeSet({
  destination: [1, u32be],
  data: [markedNested(2), nested(dataAttributes)],
});

/** Source: `NFTA_MATCH_*` and `NFTA_TARGET_*`, which have the same numbers. */
const xtablesAttributes = attributeSet({
  name: [1, cstring],
  revision: [2, u32be],
  info: [3, raw],
});

/** Source: `NFTA_COUNTER_*`. */
const counterAttributes = attributeSet({
  bytes: [1, u64be],
  packets: [2, u64be],
});

/**
 * The range from which `-j MASQUERADE` of iptables can choose, padded to 8 bytes.
 *
 * Source: include/uapi/linux/netfilter/nf_nat.h
 * `struct nf_nat_ipv4_multi_range_compat`, `struct nf_nat_range`.
 */
const ip4Ranges = struct({
  count: u32,
  flags: u32,
  firstIp: u32,
  lastIp: u32,
  firstPort: u16be,
  lastPort: u16be,
  padding: u32,
});
const IP6_RANGE_BYTES = 40;
/** Offset of a range's first address, which is also its last address. */
const RANGE_ADDRESSES: Readonly<
  Record<IpFamily, { readonly first: number; readonly last: number }>
> = { 4: { first: 8, last: 12 }, 6: { first: 4, last: 20 } };
/** Source: include/uapi/linux/netfilter/nf_nat.h `NF_NAT_RANGE_MAP_IPS`. */
const MAPS_ADDRESSES = 1;

/**
 * The bytes of `-m conntrack` of iptables, padded to 8 bytes, and offsets in them.
 *
 * Source: include/uapi/linux/netfilter/xt_conntrack.h `struct xt_conntrack_mtinfo3`.
 */
const XT_CONNTRACK = { bytes: 168, flags: 146, states: 150 } as const;
/** Source: include/uapi/linux/netfilter/xt_conntrack.h `XT_CONNTRACK_STATE`. */
const XT_CONNTRACK_STATE = 1;

const XTABLES_COMMENT = "comment", XTABLES_MASQUERADE = "MASQUERADE";
const XTABLES_SNAT = "SNAT";
/** Source: include/uapi/linux/netfilter/xt_CT.h `xt_ct_target_info_v1`. */
const XTABLES_CT = "CT", XT_CT_NOTRACK = 1;
/**
 * Longest comment of iptables in bytes, including the NUL.
 *
 * Source: `XT_MAX_COMMENT_LEN`.
 */
const XTABLES_COMMENT_MAX_BYTES = 256;

/** Source: `NFT_META_*`. */
const META_KEYS = {
  frameType: 1,
  inputName: 6,
  outputName: 7,
  trace: 12,
  family: 15,
  protocol: 16,
} as const;
/** Source: `NFT_PAYLOAD_*_HEADER`. */
const BASES = { link: 0, network: 1, transport: 2 } as const;
/** The destination port of TCP, UDP and SCTP. */
const DESTINATION_PORT = { base: "transport", offset: 2, length: 2 } as const;
/** Source: `NFT_FIB_RESULT_ADDRTYPE`, `NFTA_FIB_F_DADDR`. */
const FIB_ADDRESS_TYPE = 3, FIB_OF_DESTINATION = 2;
/** Source: include/uapi/linux/rtnetlink.h `RTN_LOCAL`. */
const LOCAL = 2;
/** Source: `NFT_NAT_DNAT`. */
const DESTINATION_NAT = 1;
/** Source: `NFT_CMP_*`. */
const OPERATORS: Readonly<Record<Operator, number>> = { "==": 0, "!=": 1 };
/** Source: `NF_ACCEPT`, `NF_DROP`, `NFT_JUMP`, `NFT_GOTO`, `NFT_RETURN`. */
export const VERDICTS = {
  accept: 1,
  drop: 0,
  jump: -3,
  goto: -4,
  return: -5,
} as const;
/** Source: include/uapi/linux/netfilter.h `NFPROTO_IPV4`, `NFPROTO_IPV6`. */
const FAMILIES: Readonly<Record<IpFamily, number>> = { 4: 2, 6: 10 };
/** Offset of the sender in an Ethernet header. Source: `struct ethhdr`. */
const ETHERNET_SOURCE_OFFSET = 6;
/** Source: `NFT_CT_STATE`; `NF_CT_STATE_BIT()`. */
const CONNTRACK_STATE = 0, ESTABLISHED_OR_RELATED = 2 | 4;
/** Source: `NFT_CT_STATUS`; nf_conntrack_common.h `IPS_DST_NAT`. */
const CONNTRACK_STATUS = 2, DESTINATION_CHANGED = 1 << 5;
const ADDRESS_BYTES: Readonly<Record<IpFamily, number>> = { 4: 4, 6: 16 };

/** The comparison operator. */
export type Operator = "==" | "!=";
/** A verdict without a chain. */
export type Verdict = "accept" | "drop" | "return";

/** Matches packets of a family; required in tables for several families. */
export function matchFamily(family: IpFamily): Expression[] {
  return [
    loadMeta("family"),
    compare("==", new Uint8Array([FAMILIES[family]])),
  ];
}

/** Matches packets that arrive through a link. */
export function matchInputName(name: string): Expression[] {
  return [loadMeta("inputName"), compare("==", encodeName(name))];
}

/** Matches packets that leave through a link. */
export function matchOutputName(name: string): Expression[] {
  return [loadMeta("outputName"), compare("==", encodeName(name))];
}

/** Encodes an interface's name as the kernel compares it. */
export function encodeName(name: string): Bytes {
  const bytes = new Uint8Array(IFNAMSIZ);
  bytes.set(new TextEncoder().encode(name));
  return bytes;
}

/** Matches packets with an address in a set. */
export function matchAddressIn(
  field: AddressField,
  family: IpFamily,
  set: string,
): Expression[] {
  const part = {
    base: "network",
    offset: ADDRESS_OFFSETS[family][field],
    length: family === 4 ? 4 : 16,
  } as const;
  return [loadPayload(part), lookUp(set)];
}

/**
 * Matches packets that arrive through a link in a set and leave through a link in it.
 */
export function matchLinksIn(set: string): Expression[] {
  return [
    loadMeta("inputName"),
    lookUp(set),
    loadMeta("outputName"),
    lookUp(set),
  ];
}

/** Decides with a map from a packet's input and output links to a verdict. */
export function decideByLinks(map: string): Expression[] {
  return [
    loadMeta("inputName"),
    loadMeta("outputName", NEXT_REGISTER),
    lookUp(map, VERDICT_REGISTER),
  ];
}

/**
 * Matches packets of connections that were allowed before, and of related
 * connections.
 */
export function matchEstablished(): Expression[] {
  return matchConnection(CONNTRACK_STATE, ESTABLISHED_OR_RELATED);
}

/** Matches connections whose destination NAT has changed. */
export function matchChangedDestination(): Expression[] {
  return matchConnection(CONNTRACK_STATUS, DESTINATION_CHANGED);
}

/** Matches connections that have any of the bits. */
function matchConnection(key: number, bits: number): Expression[] {
  const data = conntrackAttributes.encode({ destination: REGISTER, key });
  return [
    { name: "ct", data },
    mask(u32.encode(bits)),
    compare("!=", u32.encode(0)),
  ];
}

/** Matches packets to an address of the host itself. */
export function matchLocalDestination(): Expression[] {
  const data = fibAttributes.encode({
    destination: REGISTER,
    result: FIB_ADDRESS_TYPE,
    flags: FIB_OF_DESTINATION,
  });
  return [{ name: "fib", data }, compare("==", u32.encode(LOCAL))];
}

/** Matches packets that arrive through a link in a set. */
export function matchInputIn(set: string): Expression[] {
  return [loadMeta("inputName"), lookUp(set)];
}

/**
 * Matches packets if a set contains the network of their source, with a given prefix
 * length, joined with their destination.
 */
export function matchNetworkAndDestinationIn(
  set: string,
  family: IpFamily,
  prefixLength: number,
): Expression[] {
  const { source, destination } = ADDRESS_OFFSETS[family];
  const length = ADDRESS_BYTES[family];
  const isWhole = prefixLength === length * 8;
  return [
    loadPayload({ base: "network", offset: source, length }),
    ...isWhole ? [] : [mask(prefixMask(length, prefixLength))],
    loadPayload(
      { base: "network", offset: destination, length },
      wordAt(length),
    ),
    lookUp(set),
  ];
}

/**
 * Redirects connections to the address and port that a map contains for their
 * protocol and destination port. Continues with the next rule if the map contains
 * none.
 *
 * @param byAddress Whether the map's keys begin with the destination's address
 */
export function redirectBy(
  map: string,
  family: IpFamily,
  { byAddress }: { readonly byAddress: boolean },
): Expression[] {
  const length = ADDRESS_BYTES[family];
  const offset = ADDRESS_OFFSETS[family].destination;
  const start = byAddress ? length : 0;
  const data = natAttributes.encode({
    type: DESTINATION_NAT,
    family: FAMILIES[family],
    address: REGISTER,
    port: wordAt(length),
  });
  return [
    ...byAddress ? [loadPayload({ base: "network", offset, length })] : [],
    loadMeta("protocol", wordAt(start)),
    loadPayload(DESTINATION_PORT, wordAt(start + WORD_BYTES)),
    lookUp(map, REGISTER),
    { name: "nat", data },
  ];
}

/** Matches Ethernet frames from a sender. */
export function matchEthernetSource(mac: Mac): Expression[] {
  const bytes = new Uint8Array(mac.toBytes());
  const offset = ETHERNET_SOURCE_OFFSET;
  return [
    loadPayload({ base: "link", offset, length: bytes.length }),
    compare("==", bytes),
  ];
}

/** Matches packets with an address inside, or outside, a network. */
export function matchNetwork(
  field: AddressField,
  operator: Operator,
  cidr: Cidr,
): Expression[] {
  const network = cidr.masked().ip;
  const bytes = new Uint8Array(network.toBytes());
  const offset = ADDRESS_OFFSETS[network.family][field];
  // Like `nft`, compares whole bytes, and masks only if the prefix ends inside a
  // byte.
  if (cidr.prefixLength % 8 === 0 && cidr.prefixLength > 0) {
    const length = cidr.prefixLength / 8;
    return [
      loadPayload({ base: "network", offset, length }),
      compare(operator, bytes.slice(0, length)),
    ];
  }
  return [
    loadPayload({ base: "network", offset, length: bytes.length }),
    mask(prefixMask(bytes.length, cidr.prefixLength)),
    compare(operator, bytes),
  ];
}

/** Matches packets of a protocol above IP, by its number. */
export function matchProtocol(protocol: number): Expression[] {
  return [loadMeta("protocol"), compare("==", new Uint8Array([protocol]))];
}

/** Matches frames of a type, such as 0x0806 for ARP. */
export function matchFrameType(type: number): Expression[] {
  return [loadMeta("frameType"), compare("==", u16be.encode(type))];
}

/** Matches packets that contain some bytes at an offset of a header. */
export function matchBytes(
  base: keyof typeof BASES,
  offset: number,
  bytes: Bytes,
): Expression[] {
  return [
    loadPayload({ base, offset, length: bytes.length }),
    compare("==", bytes),
  ];
}

/** Makes the kernel report each step of a packet through the rules. */
export function trace(): Expression[] {
  const value = immediateAttributes.encode({
    destination: REGISTER,
    data: { value: new Uint8Array([1]) },
  });
  const data = metaAttributes.encode({
    source: REGISTER,
    key: META_KEYS.trace,
  });
  return [{ name: "immediate", data: value }, { name: "meta", data }];
}

/** Source: RFC 8200, 3; RFC 4443, 1; RFC 4861, 4.4: offsets in the packet. */
const NEXT_HEADER = 6, ICMP_TYPE = 40, ADVERTISED = 48;
const ICMPV6 = 58, NEIGHBOUR_ADVERTISEMENT = 136;

/** Matches IPv6 neighbour advertisements of an address. */
export function matchAdvertisement(ip: Ip): Expression[] {
  const part = (offset: number, bytes: Bytes): Expression[] => [
    loadPayload({ base: "network", offset, length: bytes.length }),
    compare("==", bytes),
  ];
  return [
    ...part(NEXT_HEADER, new Uint8Array([ICMPV6])),
    ...part(ICMP_TYPE, new Uint8Array([NEIGHBOUR_ADVERTISEMENT])),
    ...part(ADVERTISED, new Uint8Array(ip.toBytes())),
  ];
}

/**
 * Replaces the packet's source with the address of the link through which it leaves.
 */
export function masquerade(): Expression {
  return { name: "masq", data: new Uint8Array(0) };
}

/** Replaces the packet's source with an address. */
export function translateSource(ip: Ip): Expression[] {
  const value = immediateAttributes.encode({
    destination: REGISTER,
    data: { value: new Uint8Array(ip.toBytes()) },
  });
  const data = natAttributes.encode({
    type: NAT_SOURCE,
    family: FAMILIES[ip.family],
    address: REGISTER,
  });
  return [{ name: "immediate", data: value }, { name: "nat", data }];
}

/** Ends the rule with a verdict. */
export function decide(verdict: Verdict): Expression {
  return immediate(VERDICTS[verdict]);
}

/** Jumps to another chain, and returns if that chain decides nothing. */
export function jumpTo(chain: string): Expression {
  return immediate(VERDICTS.jump, chain);
}

/** Goes to another chain and does not return. */
export function goTo(chain: string): Expression {
  return immediate(VERDICTS.goto, chain);
}

/**
 * Adds a comment like `-m comment` of iptables. Matches every packet.
 *
 * @throws {RangeError} If the comment is longer than iptables allows
 */
export function xtablesComment(text: string): Expression {
  const bytes = cstring.encode(text);
  const info = new Uint8Array(XTABLES_COMMENT_MAX_BYTES);
  if (bytes.length > info.length) {
    throw new RangeError(
      `Cannot encode an iptables comment of ${
        bytes.length - 1
      } bytes: expected at most ${info.length - 1}`,
    );
  }
  info.set(bytes);
  const attributes = { name: XTABLES_COMMENT, revision: 0, info };
  return { name: "match", data: xtablesAttributes.encode(attributes) };
}

/**
 * Does the same as {@linkcode matchEstablished}, in the form of `-m conntrack --ctstate
 * RELATED,ESTABLISHED` of iptables.
 */
export function xtablesEstablished(): Expression {
  const info = new Uint8Array(XT_CONNTRACK.bytes);
  info.set(u16.encode(XT_CONNTRACK_STATE), XT_CONNTRACK.flags);
  info.set(u16.encode(ESTABLISHED_OR_RELATED), XT_CONNTRACK.states);
  const attributes = { name: "conntrack", revision: 3, info };
  return { name: "match", data: xtablesAttributes.encode(attributes) };
}

/** Does the same as {@linkcode masquerade}, in the form of `-j MASQUERADE` of iptables. */
export function xtablesMasquerade(family: IpFamily): Expression {
  const info = family === 4
    ? ip4Ranges.encode({ count: 1 })
    : new Uint8Array(IP6_RANGE_BYTES);
  const attributes = { name: XTABLES_MASQUERADE, revision: 0, info };
  return { name: "target", data: xtablesAttributes.encode(attributes) };
}

/** Does the same as {@linkcode translateSource}, in the form of `-j SNAT` of iptables. */
export function xtablesTranslateSource(ip: Ip): Expression {
  const info = ip.family === 4
    ? ip4Ranges.encode({ count: 1, flags: MAPS_ADDRESSES })
    : new Uint8Array(IP6_RANGE_BYTES);
  if (ip.family === 6) info.set(u32.encode(MAPS_ADDRESSES));
  const { first, last } = RANGE_ADDRESSES[ip.family];
  for (const offset of [first, last]) info.set(ip.toBytes(), offset);
  const attributes = {
    name: XTABLES_SNAT,
    revision: ip.family === 4 ? 0 : 1,
    info,
  };
  return { name: "target", data: xtablesAttributes.encode(attributes) };
}

/** Counts packets, like every rule of iptables. */
export function count(): Expression {
  const data = counterAttributes.encode({ bytes: 0n, packets: 0n });
  return { name: "counter", data };
}

/** Reports whether an expression is an extension of iptables. */
export function isOfXtables({ name }: Expression): boolean {
  return name === "match" || name === "target";
}

/** Returns the comment that {@linkcode xtablesComment} added to a rule; "" for none. */
export function xtablesCommentOf(expressions: readonly Expression[]): string {
  for (const expression of expressions.filter(isOfXtables)) {
    const { name, info } = xtablesAttributes.decode(expression.data);
    if (name === XTABLES_COMMENT && info) return cstring.decode(info);
  }
  return "";
}

/**
 * Returns the bytes of the address that a rule sets as the source of packets, in the
 * form of nft or of iptables; empty for a masquerade, which uses the address of the
 * link. Undefined if the rule changes no source.
 */
export function newSourceOf(
  expressions: readonly Expression[],
): Bytes | undefined {
  if (translationOf(expressions) !== "source") return undefined;
  for (const { name, data } of expressions) {
    if (name === "immediate") {
      const { value } = immediateAttributes.decode(data).data ?? {};
      if (value !== undefined) return value;
    }
    if (name !== "target") continue;
    const { name: target, info } = xtablesAttributes.decode(data);
    if (target !== XTABLES_SNAT || info === undefined) continue;
    const { first, last } = RANGE_ADDRESSES[
      info.length < IP6_RANGE_BYTES ? 4 : 6
    ];
    return info.slice(first, last);
  }
  return new Uint8Array(0);
}

/** Targets of iptables that translate addresses. */
const TRANSLATING: Readonly<Record<string, "source" | "destination">> = {
  SNAT: "source",
  MASQUERADE: "source",
  DNAT: "destination",
  REDIRECT: "destination",
};
/** Source: include/uapi/linux/netfilter/nf_tables.h `NFT_NAT_SNAT`, `NFT_CT_ZONE`. */
const NAT_SOURCE = 0, CT_ZONE = 17;
/** Offsets of the hop limit in IP headers. */
const HOP_LIMITS: readonly number[] = [7, 8];

/** Returns which address a rule translates, in the form of nft or of iptables. */
export function translationOf(
  expressions: readonly Expression[],
): "source" | "destination" | undefined {
  for (const { name, data } of expressions) {
    if (name === "masq") return "source";
    if (name === "redir") return "destination";
    if (name === "nat") {
      const { type } = natAttributes.decode(data);
      return type === NAT_SOURCE ? "source" : "destination";
    }
    if (name !== "target") continue;
    const found = TRANSLATING[xtablesAttributes.decode(data).name ?? ""];
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Reports whether a rule sets the hop limit of packets. */
export function setsHopLimit(expressions: readonly Expression[]): boolean {
  return expressions.some(({ name, data }) => {
    if (name === "target") {
      return /^(TTL|HL)$/.test(xtablesAttributes.decode(data).name ?? "");
    }
    if (name !== "payload") return false;
    const { source, base, offset = 0 } = payloadAttributes.decode(data);
    return source !== undefined && base === 1 && HOP_LIMITS.includes(offset);
  });
}

/** Reports whether a rule assigns connections to a connection tracking zone. */
export function setsZone(expressions: readonly Expression[]): boolean {
  return expressions.some(({ name, data }) => {
    if (name !== "ct") return false;
    const { source, key } = conntrackAttributes.decode(data);
    return source !== undefined && key === CT_ZONE;
  });
}

/** Returns a rule's final verdict; undefined if it has none. */
export function verdictOf(
  expressions: readonly Expression[],
):
  | { readonly code?: number | undefined; readonly chain?: string | undefined }
  | undefined {
  const last = expressions.findLast(({ name }) => name === "immediate");
  return last && immediateAttributes.decode(last.data).data?.verdict;
}

/** Lists the values with which a rule compares, in order. */
export function comparedValues(expressions: readonly Expression[]): Bytes[] {
  return expressions.filter(({ name }) => name === "cmp").map(({ data }) =>
    compareAttributes.decode(data).data?.value ?? new Uint8Array(0)
  );
}

/** A comparison of a rule. */
export interface Comparison {
  /** Offset of the value in its header; undefined if it is not in the packet. */
  readonly offset: number | undefined;
  /** The kernel's number of the operator. */
  readonly operator: number | undefined;
  /** The bytes that contain compared bits. */
  readonly value: Bytes;
  /** How many bits are compared. */
  readonly prefixLength: number;
}

/**
 * Lists the comparisons of a rule, in order. The result is the same for rules that
 * load a whole address and mask it, and rules that load only the bytes of a subnet.
 */
export function listComparisons(
  expressions: readonly Expression[],
): Comparison[] {
  let offset: number | undefined, masked: number | undefined;
  return expressions.flatMap(({ name, data }) => {
    if (name === "payload" || name === "meta") {
      offset = name === "meta"
        ? undefined
        : payloadAttributes.decode(data).offset;
      masked = undefined;
    } else if (name === "bitwise") {
      masked = countLeadingOnes(bitwiseAttributes.decode(data).mask?.value);
    } else if (name === "cmp") {
      const { operator, data: compared } = compareAttributes.decode(data);
      const bytes = compared?.value ?? new Uint8Array(0);
      const prefixLength = masked ?? bytes.length * 8;
      const value = bytes.slice(0, Math.ceil(prefixLength / 8));
      return [{ offset, operator, value, prefixLength }];
    }
    return [];
  });
}

function countLeadingOnes(bytes: Bytes = new Uint8Array(0)): number {
  const first = bytes.findIndex((byte) => byte !== 0xff);
  if (first < 0) return bytes.length * 8;
  // Math.clz32() counts the zeros of 32 bits.
  return first * 8 + Math.clz32(~((bytes[first] ?? 0) << 24));
}

/** Reports whether a rule compares addresses or links, directly or with a set. */
export function namesAddressOrLink(
  expressions: readonly Expression[],
): boolean {
  return expressions.some(({ name, data }) =>
    name === "payload" &&
      payloadAttributes.decode(data).base === BASES.network ||
    name === "meta" &&
      LINK_KEYS.includes(metaAttributes.decode(data).key ?? 0)
  );
}

/** Source: `NFT_META_IIF` to `NFT_META_OIFNAME`. */
const LINK_KEYS: readonly number[] = [4, 5, 6, 7];

/**
 * Reports whether an expression disables connection tracking, in the form of nft or
 * of iptables.
 */
export function isNotrack({ name, data }: Expression): boolean {
  if (name !== "target") return name === "notrack";
  const { name: target, info } = xtablesAttributes.decode(data);
  return target === XTABLES_CT && info !== undefined &&
    (u16.decode(info) & XT_CT_NOTRACK) !== 0;
}

/**
 * Returns the name of the input link that a rule matches.
 *
 * @param expressions These must begin with {@linkcode matchInputName}
 * @returns "" if the rule matches no input link
 */
export function inputNameOf(expressions: readonly Expression[]): string {
  const [value] = comparedValues(expressions);
  return new TextDecoder().decode(value).replace(/\0.*$/s, "");
}

/** Returns the register of the word that follows some bytes. */
function wordAt(bytes: number): number {
  return FIRST_WORD + bytes / WORD_BYTES;
}

function lookUp(set: string, destination?: number): Expression {
  const data = lookupAttributes.encode({ set, source: REGISTER, destination });
  return { name: "lookup", data };
}

function loadMeta(
  key: keyof typeof META_KEYS,
  destination = REGISTER,
): Expression {
  const data = metaAttributes.encode({
    destination,
    key: META_KEYS[key],
  });
  return { name: "meta", data };
}

/** A part of a packet, as bytes from the start of a header. */
interface PayloadPart {
  readonly base: keyof typeof BASES;
  readonly offset: number;
  readonly length: number;
}

function loadPayload(
  { base, offset, length }: PayloadPart,
  destination = REGISTER,
): Expression {
  const data = payloadAttributes.encode({
    destination,
    base: BASES[base],
    offset,
    length,
  });
  return { name: "payload", data };
}

function compare(operator: Operator, value: Bytes): Expression {
  const data = compareAttributes.encode({
    source: REGISTER,
    operator: OPERATORS[operator],
    data: { value },
  });
  return { name: "cmp", data };
}

function mask(bits: Bytes): Expression {
  const data = bitwiseAttributes.encode({
    source: REGISTER,
    destination: REGISTER,
    length: bits.length,
    mask: { value: bits },
    xor: { value: new Uint8Array(bits.length) },
  });
  return { name: "bitwise", data };
}

function prefixMask(length: number, prefixLength: number): Bytes {
  return Uint8Array.from({ length }, (_, index) => {
    const bits = Math.min(8, Math.max(0, prefixLength - index * 8));
    return 0xff00 >> bits & 0xff;
  });
}

function immediate(code: number, chain?: string): Expression {
  const data = immediateAttributes.encode({
    destination: VERDICT_REGISTER,
    data: { verdict: { code, chain } },
  });
  return { name: "immediate", data };
}
