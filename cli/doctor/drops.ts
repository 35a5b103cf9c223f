/**
 * Rules of nftables that drop what configured networks send or receive.
 *
 * @module
 */

import {
  type Comparison,
  encodeName,
  type Expression,
  readComparisons,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import { ADDRESS_OFFSETS } from "../../ffi/ip_header.ts";
import type { HookedChain, Nftables } from "../../ffi/nftables/mod.ts";
import type { Ip } from "../../net/ip.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import { type Check, error, type Findings } from "./finding.ts";
import { listLive } from "./live.ts";
import type { Node } from "./node.ts";
import { listRouted, type RoutedNetwork } from "./routed.ts";

/** Source: include/uapi/linux/netfilter.h `NF_INET_*`. */
const HOOKS: Readonly<Record<number, string>> = {
  0: "prerouting",
  2: "forward",
  4: "postrouting",
};
/** Source: include/uapi/linux/netfilter.h `NFPROTO_*`. */
const FAMILIES = { 4: 2, 6: 10 } as const;
/** Source: `NFT_META_*`, `NFT_PAYLOAD_NETWORK_HEADER`. */
const Meta = { inputName: 6, outputName: 7, family: 15 } as const;
const NETWORK_HEADER = 1;
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
  const chains = nftables.listHookedChains().filter(({ hook, type, table }) =>
    HOOKS[hook] !== undefined && type === "filter" && table.family !== "bridge"
  );
  const found = chains.flatMap((chain) =>
    all.flatMap((traffic) => {
      const own = traffic.subnet.family === 4 ? "ip" : "ip6";
      if (![own, "inet"].includes(chain.table.family)) return [];
      const drop = findDrop(nftables, chain, chain.name, traffic);
      return drop === undefined || drop === "passes"
        ? []
        : [{ chain, traffic, ...drop }];
    })
  );
  const byRule = Map.groupBy(
    found,
    ({ chain: { table }, handle, inChain }) =>
      `${table.family} ${table.name} ${inChain} handle ${handle}`,
  );
  return [...byRule].flatMap(([rule, some]) => {
    const [first] = some;
    if (first === undefined) return [];
    const { chain, inChain } = first;
    const { family, name } = chain.table;
    const networks = [
      ...new Set(some.map(({ traffic }) => `"${traffic.network.name}"`)),
    ];
    return [error(
      `a rule of the nftables chain "${family} ${name} ${inChain}" ` +
        `(${HOOKS[chain.hook]}) drops packets of ${networks.join(", ")}`,
      `containers of ${
        networks.join(", ")
      } do not reach others, or are not reached`,
      {
        command: `nft delete rule ${rule}`,
        look: `nft -a list chain ${family} ${name} ${inChain}`,
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
  depth = 0,
): Drop | "passes" | undefined {
  if (depth > MAX_DEPTH) return undefined;
  for (
    const { handle, expressions } of nftables.listRules(hooked.table, chain)
  ) {
    const verdict = verdictOf(expressions);
    const isDrop = verdict?.code === VERDICTS.drop ||
      expressions.some(({ name }) => name === "reject");
    const isRelevant = isDrop || verdict?.code === VERDICTS.accept ||
      verdict?.chain !== undefined;
    if (!isRelevant || !isFor(expressions, traffic, isDrop)) continue;
    if (isDrop) {
      // A last rule that drops everything is as a policy: see forward-policy.
      return isUnconditional(expressions) && hooked.hook === FORWARD
        ? undefined
        : { handle, inChain: chain };
    }
    if (verdict?.chain === undefined) return "passes";
    const inner = findDrop(nftables, hooked, verdict.chain, traffic, depth + 1);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** Source: include/uapi/linux/netfilter.h `NF_INET_FORWARD`. */
const FORWARD = 2;

function isUnconditional(expressions: readonly Expression[]): boolean {
  return readComparisons(expressions)?.length === 0;
}

/** Reports whether a rule surely matches packets of a network, new connections included. */
function isFor(
  expressions: readonly Expression[],
  traffic: Traffic,
  isDrop: boolean,
): boolean {
  const compared = readComparisons(expressions);
  return compared?.every((one) => holds(one, traffic, isDrop)) === true;
}

function holds(
  { meta, payload, isEqual, value }: Comparison,
  { subnet, addresses, links }: Traffic,
  isDrop: boolean,
): boolean {
  if (!isEqual) return false;
  const hex = value.toHex();
  if (meta === Meta.family) {
    return Number.parseInt(hex, 16) === FAMILIES[subnet.family];
  }
  if (meta === Meta.inputName || meta === Meta.outputName) {
    return links.some((link) => hex === encodeName(link).toHex());
  }
  const { source, destination } = ADDRESS_OFFSETS[subnet.family];
  if (
    payload?.base !== NETWORK_HEADER ||
    ![source, destination].includes(payload.offset)
  ) return false;
  const isOfSubnet = isPrefix(hex, subnet.network);
  // One container that is cut off is a fault; one that may pass does not help the others.
  const isOfOne = isDrop &&
    addresses.some((ip) => ip.toBytes().toHex() === hex);
  return isOfSubnet || isOfOne;
}

/** Reports whether the bytes are the beginning of an address, without zeros at their end. */
function isPrefix(hex: string, ip: Ip): boolean {
  const bytes = hex.replace(/(00)+$/, "");
  return bytes !== "" && ip.toBytes().toHex().startsWith(bytes);
}

/** Checks of rules that drop packets. */
export const DROP_CHECKS: readonly Check[] = [
  {
    code: "CNI0606",
    name: "rule-drops",
    finds: "a rule of nftables drops packets of a network or a container",
    page: {
      effect:
        "Containers of the network do not reach others, or are not reached.",
      cause:
        "A firewall's rule, for instance against spoofed or private addresses.",
      look: "`nft -a list chain FAMILY TABLE CHAIN`, and its counters.",
      fix:
        "Delete the rule where it was written; `nft delete rule` is gone with the next reload of that program.",
    },
    run: (node) => findDroppingRules(node),
  },
];
