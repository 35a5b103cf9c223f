/**
 * Rules of nftables that drop what configured networks send or receive, or have it
 * not tracked, and policies of IPsec that drop it.
 *
 * @module
 */

import {
  readComparisons,
  verdictOf,
  VERDICTS,
} from "../../ffi/nftables/expression.ts";
import type { Table } from "../../ffi/nftables/change.ts";
import type { HookedChain, Nftables, Rule } from "../../ffi/nftables/mod.ts";
import { valueOf } from "../../metadata/plugin_metadata.ts";
import type { Ip } from "../../net/ip.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  removal,
  warning,
} from "./finding.ts";
import type { Node } from "./node.ts";
import {
  isDestination,
  listTraffic,
  type Step,
  type Traffic,
  walk,
} from "./rule_walk.ts";
import { describeUnforwarded, listRouted, quoteNetworks } from "./routed.ts";
import { isErrno } from "../../ffi/errno.ts";
import { listXfrmPolicies, type XfrmPolicy } from "../../ffi/xfrm.ts";
import type { Cidr } from "../../net/cidr.ts";

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
  const found = findSteps(
    chains,
    all,
    (chain, traffic) => findDrop(nftables, chain, traffic),
  );
  const byRules = found.map((rule) => {
    const { hook, networks, at } = rule;
    // Some nodes keep containers off their own services on purpose.
    const make = hook === INPUT ? warning : error;
    return make(
      `a rule of the nftables chain "${at}" (${HOOKS[hook]}) drops packets ` +
        `of ${networks}`,
      describeEffect(hook, networks),
      deletionOf(rule),
    );
  });
  return [...byRules, ...findClosedChains(nftables, chains, all)];
}

/** A rule, and what of it matters to networks. */
interface FoundRule {
  readonly handle: bigint;
  /** Family, table and chain. */
  readonly at: string;
  /** The hook at which packets come to it. */
  readonly hook: number;
  /** The networks, quoted. */
  readonly networks: string;
}

/** Finds rules in chains that packets of networks pass, each rule once. */
function findSteps(
  chains: readonly HookedChain[],
  all: readonly Traffic[],
  find: (chain: HookedChain, traffic: Traffic) => readonly Step[],
): FoundRule[] {
  const found = chains.flatMap((chain) =>
    all.filter((traffic) => passes(traffic, chain.table)).flatMap((traffic) =>
      find(chain, traffic).map(({ handle, inChain }) => {
        const { table: { family, name }, hook } = chain;
        return { handle, at: `${family} ${name} ${inChain}`, hook, traffic };
      })
    )
  );
  const byRule = Map.groupBy(found, ({ at, handle }) => `${at} ${handle}`);
  return [...byRule.values()].flatMap((some) => {
    const [first] = some;
    if (first === undefined) return [];
    const networks = quoteNetworks(some.map(({ traffic }) => traffic));
    return [{ ...first, networks }];
  });
}

/** Reports whether IP packets of a network pass the chains of a table. */
function passes({ subnet }: Traffic, { family }: Table): boolean {
  return family === "inet" || family === (subnet.family === 4 ? "ip" : "ip6");
}

function deletionOf({ at, handle }: FoundRule): ReturnType<typeof removal> {
  return removal(
    `nft delete rule ${at} handle ${handle}`,
    `nft -a list chain ${at}`,
  );
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
    const own = all.filter((traffic) =>
      family === "bridge"
        ? traffic.link !== undefined
        : family === "arp"
        ? traffic.subnet.family === 4 && hook !== FORWARD
        : [INPUT, OUTPUT].includes(hook) && passes(traffic, chain.table)
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
      readComparisons(expressions)?.length === 0 &&
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
      removal(
        last === undefined
          ? `nft 'chain ${family} ${table} ${name} { policy accept; }'`
          : `nft delete rule ${at} handle ${last.handle}`,
        `nft -a list chain ${at}`,
      ),
    )];
  });
}

/** Finds the rule that surely drops packets of a network; at most one. */
function findDrop(
  nftables: Nftables,
  chain: HookedChain,
  traffic: Traffic,
): Step[] {
  for (const step of walk(nftables, chain, traffic)) {
    if (!step.isSure) continue;
    if (step.effect === "accept") return [];
    if (step.effect !== "drop") continue;
    // A last rule that drops everything is as a policy: see forward-policy.
    const isPolicy = !step.isConditional &&
      [INPUT, FORWARD, OUTPUT].includes(chain.hook);
    return isPolicy ? [] : [step];
  }
  return [];
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
  const all = listTraffic(node).filter(({ conf: { document } }) =>
    valueOf(document, "ipMasq") === true
  );
  const chains = nftables.listHookedChains().filter(({ hook, priority }) =>
    hook === PREROUTING && priority < TRACKING_PRIORITY
  );
  return findSteps(
    chains,
    all,
    (chain, traffic) => findNotrack(nftables, chain, traffic),
  ).map((rule) => {
    const { at, networks } = rule;
    return error(
      `a rule of the nftables chain "${at}" has connections of ${networks} ` +
        "not tracked",
      `no packet of ${networks} is masqueraded: containers reach nobody ` +
        "outside of the node",
      deletionOf(rule),
    );
  });
}

/** Finds the rules that have all connections of a network not tracked. */
function findNotrack(
  nftables: Nftables,
  chain: HookedChain,
  traffic: Traffic,
): Step[] {
  const found: Step[] = [];
  for (const step of walk(nftables, chain, traffic)) {
    if (step.effect === "notrack") {
      const isOfSome = step.also.some((one) =>
        isDestination(one, traffic.subnet.family)
      );
      if (step.isSure && !isOfSome) found.push(step);
    } else if (!step.isSure || step.next === undefined) {
      // It may take packets to elsewhere.
      break;
    }
  }
  return found;
}

/** Checks of rules that drop packets. */
export const DROP_CHECKS: readonly Check[] = [
  {
    code: "CNI0606",
    name: "rule-drops",
    finds:
      "an nftables rule or chain drops packets of a network or a container",
    page: {
      effect:
        "Containers of the network do not reach others, or are unreachable.",
      cause: "A firewall rule, such as a rule against private addresses.",
      look: "`nft -a list chain FAMILY TABLE CHAIN`, and its counters.",
      fix:
        "Delete the rule where it was written; `nft delete rule` lasts until that program's next reload.",
    },
    run: (node) => findDroppingRules(node),
  },
  {
    code: "CNI0610",
    name: "untracked",
    finds: "a notrack rule applies to a masqueraded network",
    page: {
      effect: "Containers of the network reach nothing outside the node: " +
        "their packets keep their own addresses.",
      cause: "A `notrack` rule for speed, or against a full table of " +
        "connections, that is not limited to the node's own traffic.",
      look: "`nft -a list ruleset | grep -B9 notrack`.",
      fix: "Exclude the network's subnet from the rule, where it was written.",
    },
    run: findUntracked,
  },
];

/** Finds policies of IPsec that drop what networks send or receive. */
function findBlockingPolicies(node: Node): Findings {
  const policies = listPolicies(node.hostNetns);
  const blocks = policies.filter((one) =>
    one.isBlock && one.direction !== "in" && !one.isNarrow &&
    // Which one a packet meets first depends on the packet.
    !policies.some(({ isBlock, direction, priority }) =>
      !isBlock && direction === one.direction && priority <= one.priority
    )
  );
  return blocks.flatMap(({ direction, source, destination }) => {
    const own = listRouted(node).filter(({ subnet }) =>
      covers(source, subnet) && destination.prefixLength === 0 ||
      covers(destination, subnet) && source.prefixLength === 0
    );
    if (own.length === 0) return [];
    const networks = quoteNetworks(own);
    const policy = `src ${source} dst ${destination} dir ${direction}`;
    return [error(
      `the IPsec policy "${policy}" drops packets of ${networks}`,
      describeUnforwarded(networks),
      removal(`ip xfrm policy delete ${policy}`, "ip xfrm policy"),
    )];
  });
}

function covers(wide: Cidr, subnet: Cidr): boolean {
  return wide.family === subnet.family && wide.containsCidr(subnet);
}

/** Lists the policies; none if the kernel has no IPsec. */
function listPolicies(netns: string): XfrmPolicy[] {
  try {
    return listXfrmPolicies(netns);
  } catch (error) {
    if (isErrno(error, "EPROTONOSUPPORT")) return [];
    throw error;
  }
}

/** Checks of IPsec. */
export const IPSEC_CHECKS: readonly Check[] = [
  {
    code: "CNI0611",
    name: "ipsec-blocks",
    finds: "an IPsec policy drops all packets of a network",
    page: {
      effect:
        "Containers of the network do not reach others, or are unreachable.",
      cause: "A VPN policy against unencrypted packets, or a leftover policy " +
        "of a program.",
      look: "`ip xfrm policy`, and `XfrmInPolBlock` and `XfrmOutPolBlock` in " +
        "/proc/net/xfrm_stat.",
      fix: "Exclude the network's subnet in the VPN's configuration.",
    },
    run: findBlockingPolicies,
  },
];
