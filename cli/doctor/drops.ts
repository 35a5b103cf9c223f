/**
 * Rules of nftables that drop what configured networks send or receive.
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
import { ADDRESS_OFFSETS } from "../../ffi/ip_header.ts";
import type { Element, Table } from "../../ffi/nftables/change.ts";
import type { HookedChain, Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { valueOf } from "../../cni/tools/about.ts";
import type { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { listLive } from "./live.ts";
import type { Node } from "./node.ts";
import {
  describeUnforwarded,
  listRouted,
  quoteNetworks,
  type RoutedNetwork,
} from "./routed.ts";

/** Source: include/uapi/linux/netfilter.h `NF_INET_*`, `NF_BR_*`. */
const HOOKS: readonly string[] = [
  "prerouting",
  "input",
  "forward",
  "output",
  "postrouting",
];
const PREROUTING = 0, INPUT = 1, FORWARD = 2, OUTPUT = 3;
/** Source: include/uapi/linux/netfilter_arp.h `NF_ARP_*`. */
const ARP_HOOKS: readonly string[] = ["input", "output", "forward"];
/** Source: include/uapi/linux/netfilter.h `NFPROTO_*`. */
const FAMILIES = { 4: 2, 6: 10 } as const;
/** Source: `NFT_META_*`, `NFT_PAYLOAD_NETWORK_HEADER`, `NFT_CT_STATE`. */
const Meta = { inputName: 6, outputName: 7, family: 15, protocol: 16 } as const;
const NETWORK_HEADER = 1, CONNTRACK_STATE = 0;
/** The bit of new connections. Source: `NF_CT_STATE_BIT()`, `IP_CT_NEW`. */
const NEW = 8;
/** Without these nothing works. Source: include/uapi/linux/in.h `IPPROTO_*`. */
const TCP = 6, UDP = 17;
/** Source: net/netfilter `NFT_JUMP_STACK_SIZE`. */
const MAX_DEPTH = 16;

/** Properties of a network's packets. */
interface Traffic extends RoutedNetwork {
  /** The addresses of its containers. */
  readonly addresses: readonly Ip[];
  /** Names of the links by which they come to the host. */
  readonly links: readonly string[];
}

function listTraffic(node: Node, more: readonly Ip[]): Traffic[] {
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

/**
 * Finds rules that drop what networks send or receive.
 *
 * @param more Further addresses that their packets have
 */
export function findDroppingRules(
  node: Node,
  more: readonly Ip[] = [],
): Findings {
  using nftables = openNftables(node.hostNetns);
  if (nftables === undefined) return [];
  const all = listTraffic(node, more);
  const chains = nftables.listHookedChains()
    .filter(({ type }) => type === "filter");
  const found = chains.filter(({ table }) => isOfPackets(table)).flatMap(
    (chain) =>
      all.flatMap((traffic) => {
        const own = traffic.subnet.family === 4 ? "ip" : "ip6";
        if (![own, "inet"].includes(chain.table.family)) return [];
        const drop = findDrop(nftables, chain, chain.name, traffic);
        return drop === undefined || drop === "passes"
          ? []
          : [{ chain, traffic, ...drop }];
      }),
  );
  const byRule = Map.groupBy(
    found,
    ({ chain: { table }, handle, inChain }) =>
      `${table.family} ${table.name} ${inChain} handle ${handle}`,
  );
  const byRules = [...byRule].flatMap(([rule, some]) => {
    const [first] = some;
    if (first === undefined) return [];
    const { chain, inChain } = first;
    const { family, name } = chain.table;
    const networks = quoteNetworks(some.map(({ traffic }) => traffic));
    // Some nodes keep containers off their own services on purpose.
    const make = chain.hook === INPUT ? warning : error;
    return [make(
      `a rule of the nftables chain "${family} ${name} ${inChain}" ` +
        `(${HOOKS[chain.hook]}) drops packets of ${networks}`,
      describeEffect(chain.hook, networks),
      {
        command: `nft delete rule ${rule}`,
        look: `nft -a list chain ${family} ${name} ${inChain}`,
        advice: "and tell the program that added it, or it comes back",
      },
    )];
  });
  return [...byRules, ...findClosedChains(nftables, chains, all)];
}

function isOfPackets({ family }: Table): boolean {
  return family !== "bridge" && family !== "arp";
}

function describeEffect(hook: number, networks: string): string {
  if (hook === INPUT) {
    return `containers of ${networks} do not reach the node itself: its name ` +
      "server, or the API server on it";
  }
  return hook === OUTPUT
    ? `the node does not reach containers of ${networks}: probes fail`
    : describeUnforwarded(networks);
}

/**
 * Finds chains that let nothing through at all: those that the node's own
 * packets, frames of bridges, or ARP pass. For forwarded packets, see
 * forward-policy.
 */
function findClosedChains(
  nftables: Nftables,
  chains: readonly HookedChain[],
  all: readonly Traffic[],
): Finding[] {
  return chains.flatMap((chain) => {
    const { table: { family, name: table }, name, hook } = chain;
    const own = all.filter(({ subnet, link }) =>
      family === "bridge"
        ? link !== undefined
        : family === "arp"
        ? subnet.family === 4 && hook !== FORWARD
        : [INPUT, OUTPUT].includes(hook) &&
          ["inet", subnet.family === 4 ? "ip" : "ip6"].includes(family)
    );
    const networks = quoteNetworks(own);
    const rules = nftables.listRules(chain.table, name);
    const lets = ({ expressions }: Rule): boolean => {
      const verdict = verdictOf(expressions);
      return verdict?.code === VERDICTS.accept ||
        verdict?.chain !== undefined ||
        expressions.some(({ name }) => name === "lookup" || name === "target");
    };
    const last = rules.find(({ expressions }) =>
      isUnconditional(expressions) &&
      verdictOf(expressions)?.code === VERDICTS.drop
    );
    const isClosed = chain.drops || last !== undefined;
    if (networks === "" || !isClosed || rules.some(lets)) return [];
    const at = `${family} ${table} ${name}`;
    const where = family === "arp" ? ARP_HOOKS[hook] : HOOKS[hook];
    return [error(
      `the nftables chain "${at}" (${where}) drops everything`,
      family === "bridge" && hook === FORWARD
        ? `containers of ${networks} do not reach each other`
        : `containers of ${networks} and the node do not reach each other`,
      {
        command: last === undefined
          ? `nft 'chain ${at.replace(/ \S+$/, "")} ${name} { policy accept; }'`
          : `nft delete rule ${at} handle ${last.handle}`,
        look: `nft -a list chain ${at}`,
        advice: "and tell the program that added it, or it comes back",
      },
    )];
  });
}

/** A rule that drops packets. */
interface Drop {
  readonly handle: bigint;
  readonly inChain: string;
}

/** Finds the first rule that surely decides about packets of a network. */
function findDrop(
  nftables: Nftables,
  hooked: HookedChain,
  chain: string,
  traffic: Traffic,
  { depth = 0, isConditional = false } = {},
): Drop | "passes" | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const elementsOf = elementsIn(nftables, hooked);
  for (
    const { handle, expressions } of nftables.listRules(hooked.table, chain)
  ) {
    const compared = readComparisons(expressions);
    if (compared === undefined) continue;
    for (const verdict of listVerdicts(expressions, compared, elementsOf)) {
      const { isDrop, next, also } = verdict;
      const context = { traffic, isDrop, elementsOf };
      if (!also.every((one) => holds(one, context))) continue;
      if (isDrop) {
        // A last rule that drops everything is as a policy: see forward-policy.
        const isPolicy = also.length === 0 && !isConditional &&
          [INPUT, FORWARD, OUTPUT].includes(hooked.hook);
        if (isPolicy) return undefined;
        return { handle, inChain: chain };
      }
      if (next === undefined) return "passes";
      const inner = findDrop(nftables, hooked, next, traffic, {
        depth: depth + 1,
        isConditional: isConditional || also.length > 0,
      });
      if (inner !== undefined) return inner;
    }
  }
  return undefined;
}

function elementsIn(
  nftables: Nftables,
  { table }: HookedChain,
): (set: string) => readonly Element[] {
  return (set) => nftables.listElements(table, set);
}

/** What a rule does with the packets for which all comparisons hold. */
interface Decision {
  readonly isDrop: boolean;
  /** The chain that it jumps to. */
  readonly next: string | undefined;
  readonly also: readonly Comparison[];
}

/** Lists the verdicts of a rule: its own, or its map's. */
function listVerdicts(
  expressions: readonly Expression[],
  compared: readonly Comparison[],
  elementsOf: (set: string) => readonly Element[],
): Decision[] {
  const map = compared.find(({ isMap }) => isMap === true);
  if (map?.set !== undefined) {
    const others = compared.filter((one) => one !== map);
    return elementsOf(map.set).flatMap(({ key, verdict, chain }) => {
      const value: Comparison = { ...map, set: undefined, value: key };
      return decisionOf({ code: verdict, chain }, [...others, value]);
    });
  }
  const isReject = expressions.some(({ name }) => name === "reject");
  const verdict = isReject ? { code: VERDICTS.drop } : verdictOf(expressions);
  return decisionOf(verdict, compared);
}

function decisionOf(
  verdict: ReturnType<typeof verdictOf>,
  also: readonly Comparison[],
): Decision[] {
  if (verdict?.chain !== undefined) {
    return [{ isDrop: false, next: verdict.chain, also }];
  }
  const isDrop = verdict?.code === VERDICTS.drop;
  return isDrop || verdict?.code === VERDICTS.accept
    ? [{ isDrop, next: undefined, also }]
    : [];
}

function isUnconditional(expressions: readonly Expression[]): boolean {
  return readComparisons(expressions)?.length === 0;
}

/** The packet that a comparison is judged by. */
interface Context {
  readonly traffic: Traffic;
  readonly isDrop: boolean;
  readonly elementsOf: (set: string) => readonly Element[];
}

/** Reports whether a comparison surely holds for a network's new connections. */
function holds(comparison: Comparison, context: Context): boolean {
  const { meta, payload, conntrack, isEqual, value, set } = comparison;
  const { traffic: { subnet, addresses, links }, isDrop } = context;
  if (conntrack !== undefined) return isOfNew(comparison);
  if (!isEqual) return false;
  if (set !== undefined) return isInSet(comparison, context);
  const hex = value.toHex();
  const number = Number.parseInt(hex, 16);
  if (meta === Meta.family) return number === FAMILIES[subnet.family];
  // A rule that lets one protocol pass does not help the others.
  if (meta === Meta.protocol) return isDrop && [TCP, UDP].includes(number);
  if (meta === Meta.inputName || meta === Meta.outputName) {
    return links.some((link) => hex === encodeName(link).toHex());
  }
  if (!isAddress(payload, subnet.family)) return false;
  const isOfSubnet = isPrefix(hex, subnet.network);
  // One container that is cut off is a fault; one that may pass does not help the others.
  const isOfOne = isDrop &&
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
  { traffic: { subnet, addresses, links }, isDrop, elementsOf }: Context,
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
  return isWhole || isDrop && addresses.some(has);
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

/** Later, connections are tracked already. Source: `NF_IP_PRI_CONNTRACK`. */
const TRACKING_PRIORITY = -200;

/**
 * Finds rules by which connections of masqueraded networks are not tracked, and
 * so not translated.
 */
function findUntracked(node: Node): Findings {
  using nftables = openNftables(node.hostNetns);
  if (nftables === undefined) return [];
  const all = listTraffic(node, []).filter(({ conf: { document } }) =>
    valueOf(document, "ipMasq") === true
  );
  const chains = nftables.listHookedChains().filter(({ hook, priority }) =>
    hook === PREROUTING && priority < TRACKING_PRIORITY
  );
  return chains.flatMap((chain) => {
    const { table: { family, name: table }, name } = chain;
    const elementsOf = elementsIn(nftables, chain);
    const rules = nftables.listRules(chain.table, name);
    // A rule may take packets to elsewhere before.
    const end = rules.findIndex(({ expressions }) =>
      verdictOf(expressions) !== undefined ||
      expressions.some((one) =>
        one.name === "lookup" || one.name === "target" && !isNotrack(one)
      )
    );
    const first = end < 0 ? rules : rules.slice(0, end + 1);
    return first.flatMap(({ expressions, handle }) => {
      if (!expressions.some(isNotrack)) return [];
      const compared = readComparisons(
        expressions.filter((one) => !isNotrack(one)),
      );
      const own = all.filter((traffic) => {
        const ip = traffic.subnet.family === 4 ? "ip" : "ip6";
        return [ip, "inet"].includes(family) &&
          compared?.every((one) =>
            !isDestination(one, traffic.subnet.family) &&
            holds(one, { traffic, isDrop: true, elementsOf })
          );
      });
      if (own.length === 0) return [];
      const networks = quoteNetworks(own);
      return [error(
        `a rule of the nftables chain "${family} ${table} ${name}" has ` +
          `connections of ${networks} not tracked`,
        `no packet of ${networks} is masqueraded: containers reach nobody ` +
          "outside of the node",
        {
          command:
            `nft delete rule ${family} ${table} ${name} handle ${handle}`,
          look: `nft -a list chain ${family} ${table} ${name}`,
          advice: "and tell the program that added it, or it comes back",
        },
      )];
    });
  });
}

function isDestination(
  { payload }: Comparison,
  family: IpFamily,
): boolean {
  return payload?.base === NETWORK_HEADER &&
    payload.offset === ADDRESS_OFFSETS[family].destination;
}

/** Checks of rules that drop packets. */
export const DROP_CHECKS: readonly Check[] = [
  {
    code: "CNI0606",
    name: "rule-drops",
    finds:
      "a rule or chain of nftables drops packets of a network or a container",
    page: {
      effect:
        "Containers of the network do not reach others, or are not reached.",
      cause: "A firewall's rule, such as against private addresses.",
      look: "`nft -a list chain FAMILY TABLE CHAIN`, and its counters.",
      fix:
        "Delete the rule where it was written; `nft delete rule` lasts until that program's next reload.",
    },
    run: (node) => findDroppingRules(node),
  },
  {
    code: "CNI0610",
    name: "untracked",
    finds: "a rule has connections of a masqueraded network not tracked",
    page: {
      effect: "Containers of the network reach nobody outside of the node: " +
        "their packets keep their own addresses.",
      cause: "A `notrack` rule for speed, or against a full table of " +
        "connections, that is not limited to the node's own traffic.",
      look: "`nft -a list ruleset | grep -B9 notrack`.",
      fix:
        "Have the rule leave out the network's subnet, where it was written.",
    },
    run: findUntracked,
  },
];
