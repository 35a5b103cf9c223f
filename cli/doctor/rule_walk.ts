/**
 * The way of a network's packets through rules of nftables, and what the rules
 * compare in them.
 *
 * @module
 */

import {
  type Comparison,
  encodeName,
  type Expression,
  isNotrack,
  readComparisons,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import type { Element } from "../../ffi/nftables/change.ts";
import type { HookedChain, Nftables } from "../../ffi/nftables/mod.ts";
import { ADDRESS_OFFSETS } from "../../ffi/socket/ip_header.ts";
import type { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { listLive } from "./live.ts";
import type { Node } from "./node.ts";
import { listRouted, type RoutedNetwork } from "./routed.ts";

/** Source: net/netfilter `NFT_JUMP_STACK_SIZE`. */
const MAX_DEPTH = 16;

/** What a rule does with a packet; "unknown" if it has parts that are not understood. */
type Effect =
  | "drop"
  | "accept"
  | "jump"
  | "goto"
  | "return"
  | "notrack"
  | "unknown";

/** What a rule does with the packets for which all comparisons hold. */
interface Decision {
  readonly effect: Effect;
  /** The chain that it jumps to. */
  readonly next?: string | undefined;
  readonly also: readonly Comparison[];
}

/** A rule that packets of a network come to. */
export interface Step extends Decision {
  readonly handle: bigint;
  readonly inChain: string;
  /** Whether it surely decides about new connections of the network. */
  readonly isSure: boolean;
  /** Whether it, or a jump to it, is for some packets only. */
  readonly isConditional: boolean;
}

/**
 * Walks through the rules that packets of a network come to, in the kernel's order.
 * Follows jumps that they surely take. The caller stops at a step that surely ends
 * the way. Rules without any effect are left out.
 */
export function* walk(
  nftables: Nftables,
  hooked: HookedChain,
  traffic: Traffic,
  { chain = hooked.name, depth = 0, isInner = false } = {},
): Generator<Step, void> {
  if (depth > MAX_DEPTH) return;
  const elementsOf = (set: string): readonly Element[] =>
    nftables.listElements(hooked.table, set);
  for (
    const { handle, expressions } of nftables.listRules(hooked.table, chain)
  ) {
    for (const decision of listDecisions(expressions, elementsOf)) {
      const { effect, next, also } = decision;
      const isHarm = effect === "drop" || effect === "notrack";
      const isSure = effect !== "unknown" &&
        also.every((one) => holds(one, { traffic, isHarm, elementsOf }));
      const isConditional = isInner || also.length > 0;
      yield { ...decision, handle, inChain: chain, isSure, isConditional };
      if (!isSure) continue;
      if (next !== undefined) {
        yield* walk(nftables, hooked, traffic, {
          chain: next,
          depth: depth + 1,
          isInner: isConditional,
        });
      }
      if (effect === "return" || effect === "goto") return;
    }
  }
}

/** Lists what a rule does, by itself or by its map. */
function listDecisions(
  expressions: readonly Expression[],
  elementsOf: (set: string) => readonly Element[],
): Decision[] {
  const others = expressions.filter((one) => !isNotrack(one));
  const compared = readComparisons(others);
  if (compared === undefined) {
    const isEnd = verdictOf(others) !== undefined ||
      others.some(({ name }) => name === "lookup" || name === "target");
    return isEnd ? [{ effect: "unknown", also: [] }] : [];
  }
  const untracked: Decision[] = others.length < expressions.length
    ? [{ effect: "notrack", also: compared }]
    : [];
  const map = compared.find(({ isMap }) => isMap === true);
  if (map?.set !== undefined) {
    const rest = compared.filter((one) => one !== map);
    const byMap = elementsOf(map.set).flatMap(({ key, verdict, chain }) => {
      const value: Comparison = { ...map, set: undefined, value: key };
      return decisionOf({ code: verdict, chain }, [...rest, value]);
    });
    return [...untracked, ...byMap];
  }
  const isReject = others.some(({ name }) => name === "reject");
  const verdict = isReject ? { code: VERDICTS.drop } : verdictOf(others);
  return [...untracked, ...decisionOf(verdict, compared)];
}

/** Names of verdicts by their codes. */
const EFFECTS = new Map<number | undefined, Effect>([
  [VERDICTS.drop, "drop"],
  [VERDICTS.accept, "accept"],
  [VERDICTS.jump, "jump"],
  [VERDICTS.goto, "goto"],
  [VERDICTS.return, "return"],
]);

function decisionOf(
  verdict: ReturnType<typeof verdictOf>,
  also: readonly Comparison[],
): Decision[] {
  const effect = EFFECTS.get(verdict?.code);
  return effect === undefined ? [] : [{ effect, next: verdict?.chain, also }];
}

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
