/**
 * Packets of configured networks, and what rules of nftables compare in them.
 *
 * @module
 */

import { type Comparison, encodeName } from "../../ffi/nftables/expression.ts";
import { ADDRESS_OFFSETS } from "../../ffi/socket/ip_header.ts";
import type { Element } from "../../ffi/nftables/change.ts";
import type { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { listLive } from "./live.ts";
import type { Node } from "./node.ts";
import { listRouted, type RoutedNetwork } from "./routed.ts";

/** Source: include/uapi/linux/netfilter.h `NFPROTO_*`. */
const FAMILIES = { 4: 2, 6: 10 } as const;
/** Source: `NFT_META_*`, `NFT_PAYLOAD_NETWORK_HEADER`, `NFT_CT_STATE`. */
const Meta = { inputName: 6, outputName: 7, family: 15, protocol: 16 } as const;
const NETWORK_HEADER = 1, CONNTRACK_STATE = 0;
/** The bit of new connections. Source: `NF_CT_STATE_BIT()`, `IP_CT_NEW`. */
const NEW = 8;
/** Without these nothing works. Source: include/uapi/linux/in.h `IPPROTO_*`. */
const TCP = 6, UDP = 17;

/** Properties of a network's packets. */
export interface Traffic extends RoutedNetwork {
  /** The addresses of its containers. */
  readonly addresses: readonly Ip[];
  /** Names of the links by which they come to the host. */
  readonly links: readonly string[];
}

/**
 * Lists the packets of all networks.
 *
 * @param more Further addresses that they have
 */
export function listTraffic(
  node: Node,
  more: readonly Ip[] = [],
): Traffic[] {
  const live = listLive(node);
  return listRouted(node).map((routed) => {
    const own = live.filter(({ cached }) =>
      cached.network === routed.network.name
    );
    return {
      ...routed,
      addresses: [
        ...own.flatMap(({ addresses }) => addresses.map(({ ip }) => ip)),
        ...more,
      ],
      links: [
        ...routed.link === undefined ? [] : [routed.link],
        ...own.flatMap(({ entry }) => entry?.name ?? []),
      ],
    };
  });
}

/** The packet that a comparison is judged by. */
export interface Context {
  readonly traffic: Traffic;
  /** Whether the rule takes something from the packet: one container's is enough then. */
  readonly isHarm: boolean;
  readonly elementsOf: (set: string) => readonly Element[];
}

/** Reports whether a comparison surely holds for a network's new connections. */
export function holds(
  comparison: Comparison,
  context: Context,
): boolean {
  const { meta, payload, conntrack, isEqual, value, set } = comparison;
  const { traffic: { subnet, addresses, links }, isHarm } = context;
  if (conntrack !== undefined) return isOfNew(comparison);
  if (!isEqual) return false;
  if (set !== undefined) return isInSet(comparison, context);
  const hex = value.toHex();
  const number = Number.parseInt(hex, 16);
  if (meta === Meta.family) return number === FAMILIES[subnet.family];
  // A rule that lets one protocol pass does not help the others.
  if (meta === Meta.protocol) return isHarm && [TCP, UDP].includes(number);
  if (meta === Meta.inputName || meta === Meta.outputName) {
    return links.some((link) => hex === encodeName(link).toHex());
  }
  if (!isAddress(payload, subnet.family)) return false;
  const isOfSubnet = isPrefix(hex, subnet.network);
  // One container that is cut off is a fault; one that may pass does not help the others.
  const isOfOne = isHarm &&
    addresses.some((ip) => ip.toBytes().toHex() === hex);
  return isOfSubnet || isOfOne;
}

function isAddress(
  payload: Comparison["payload"],
  family: IpFamily,
): boolean {
  const { source, destination } = ADDRESS_OFFSETS[family];
  return payload?.base === NETWORK_HEADER &&
    [source, destination].includes(payload.offset);
}

/** Reports whether it is about the state of a connection, and new ones have it. */
function isOfNew({ conntrack, mask, isEqual, value }: Comparison): boolean {
  const bits = mask?.[0] ?? 0;
  return conntrack === CONNTRACK_STATE && !isEqual &&
    value.every((byte) => byte === 0) && (bits & NEW) !== 0;
}

/** Reports whether a set has a network's links, its subnet, or one of its addresses. */
function isInSet(
  { meta, payload, set = "" }: Comparison,
  { traffic: { subnet, addresses, links }, isHarm, elementsOf }: Context,
): boolean {
  const isName = meta === Meta.inputName || meta === Meta.outputName;
  if (!isName && !isAddress(payload, subnet.family)) return false;
  const elements = elementsOf(set);
  if (isName) {
    return links.some((link) => {
      const hex = encodeName(link).toHex();
      return elements.some(({ key }) => key.toHex() === hex);
    });
  }
  const has = (ip: Ip): boolean => isAmong(elements, ip.toBytes().toHex());
  const isWhole = has(subnet.network) && has(lastOf(subnet)) &&
    elements.some(({ isEnd }) => isEnd === true);
  return isWhole || isHarm && addresses.some(has);
}

function lastOf(subnet: Cidr): Ip {
  const { network, prefixLength } = subnet;
  const size = 1n << BigInt(network.bitLength - prefixLength);
  return Ip.fromValue(network.family, network.value + size - 1n);
}

/** Reports whether a set has a value, by itself or in an interval. */
function isAmong(elements: readonly Element[], hex: string): boolean {
  // Others are of several values.
  const keys = elements.filter(({ key }) => key.length * 2 === hex.length)
    .map(({ key, isEnd = false }) => ({ text: key.toHex(), isEnd }));
  if (!keys.some(({ isEnd }) => isEnd)) {
    return keys.some(({ text }) => text === hex);
  }
  // One interval may begin where another ends.
  const before = keys.filter(({ text }) => text <= hex).sort((left, right) =>
    left.text === right.text
      ? Number(right.isEnd) - Number(left.isEnd)
      : left.text < right.text
      ? -1
      : 1
  ).at(-1);
  return before?.isEnd === false;
}

/** Reports whether the bytes are the beginning of an address, without zeros at their end. */
function isPrefix(hex: string, ip: Ip): boolean {
  const bytes = hex.replace(/(00)+$/, "");
  return bytes !== "" && ip.toBytes().toHex().startsWith(bytes);
}

/** Reports whether a comparison is of where a packet goes. */
export function isDestination(
  { payload }: Comparison,
  family: IpFamily,
): boolean {
  return payload?.base === NETWORK_HEADER &&
    payload.offset === ADDRESS_OFFSETS[family].destination;
}
