/**
 * Explains a lost probe with the rules that its packets passed.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import {
  namesAddressOrLink,
  translationOf,
  verdictOf,
  VERDICTS,
  xtablesCommentOf,
} from "../../ffi/nftables/expression.ts";
import type { HookedChain, Nftables, Rule } from "../../ffi/nftables/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { type Cause, POLICY_ADVICE, type Remedy, removal } from "./cause.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { isOnHost } from "./endpoint.ts";
import { explainReason } from "./reasons.ts";
import { explainLink } from "./explain_link.ts";
import {
  acceptanceOf,
  type CountedRule,
  deletionOf,
  dropsAll,
  isAtNode,
  isOnPurpose,
} from "./legacy_rules.ts";
import { findDrop, type PlacedStep, type Trace } from "./trace.ts";

/**
 * Explains a loss with what the kernel reported: rules, counters, drop reasons.
 *
 * @param subnet The container's, for rules that accept it
 */
export function explainLoss(
  trace: Trace,
  node: NodeReader,
  subnet: Cidr,
): Cause | undefined {
  return explainRule(trace, node, subnet) ??
    explainCounted(trace, node, subnet) ?? explainLink(trace, node) ??
    explainReason(trace, node);
}

/** Source: include/uapi/linux/netfilter.h `NF_INET_*`. */
const INPUT = 1, FORWARD = 2, OUTPUT = 3, POSTROUTING = 4;
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting"];
/** Expressions of rules that match every packet. */
const IDLE = ["counter", "immediate", "reject", "log"];

function explainRule(
  trace: Trace,
  node: NodeReader,
  subnet: Cidr,
): Cause | undefined {
  const step = findDrop(trace);
  using nftables = step && openNftables(step.netns);
  if (step === undefined || nftables === undefined) return undefined;
  const { table, chain, handle } = step;
  const base = findBase(nftables, trace, step);
  const rule = findRule(nftables, step);
  const { isOfNode, what, help } = describeRule(step, rule, node, base);
  const text = handle === undefined
    ? `${what} has policy drop, and no rule accepts the packets`
    : `${what} drops packets`;
  const isAtNode = base?.hook === INPUT || base?.hook === OUTPUT;
  const intention = isOfNode && isAtNode &&
      isOfServices(nftables, step, base, rule)
    ? SERVICES_ADVICE
    : isOfNode && isOfPolicies(chain, table.name)
    ? POLICY_ADVICE
    : table.name.startsWith("cni_") || chain.startsWith("CNI-ISOLATION")
    ? ISOLATION_ADVICE
    : undefined;
  if (intention !== undefined) return intended(text, intention, help.look);
  // Rules in a chain that others jump to are limited by the conditions of the jump. The
  // rules of firewalld's zones must not be deleted, because a reload restores them.
  const isForEverything = rule === undefined ||
    matchesAll(rule) && (base?.name === chain || isOfFirewalld(step, node));
  if (!isForEverything) return { check: "rule-drops", text, ...help };
  return {
    check: base?.hook === FORWARD && table.family !== "bridge"
      ? "forward-policy"
      : "rule-drops",
    text,
    command: acceptIn(nftables, step, base?.hook, subnet, node),
    look: help.look,
  };
}

/** Advice about rules that drop on purpose. */
const SERVICES_ADVICE =
  "the node's firewall drops this on purpose, and accepts other packets; if " +
  "containers need this, accept it in the firewall's configuration";
const ISOLATION_ADVICE =
  "ingressPolicy or macspoofchk of a network drops this on purpose";

/** Describes a rule that drops packets on purpose. */
function intended(
  text: string,
  advice: string,
  look: string | undefined,
): Cause {
  return { check: "rule-drops", text, advice, look, isIntended: true };
}

/**
 * Reports whether a rule on the node is of a program that applies NetworkPolicies: a
 * packet that it drops is dropped on purpose.
 */
function isOfPolicies(chain: string, table = ""): boolean {
  return /^(KUBE-POD-FW-|KUBE-NWPLCY-|KUBE-ROUTER-|(filter-)?cali-|CILIUM_|ANTREA-)/
    .test(chain) ||
    /^(calico|cilium|antrea|(kindnet|kube)-network-policies)/.test(table);
}

/** Reports whether a rule is in the table of the node's firewalld. */
function isOfFirewalld(
  { table, netns }: PlacedStep,
  node: NodeReader,
): boolean {
  return table.name === "firewalld" && isNetnsOfNode(node, netns);
}

function isNetnsOfNode(
  { hostNetns, host }: NodeReader,
  netns: string,
): boolean {
  return netns === hostNetns || netns === host.netns.path;
}

/** Writes a command that runs in a namespace. */
function inside(node: NodeReader, netns: string, command: string): string {
  return isNetnsOfNode(node, netns)
    ? command
    : shell`nsenter --net=${netns} ` + command;
}

/** A rule that a packet or its answer passed. */
export interface PassedRule {
  readonly step: PlacedStep;
  readonly rule: Rule;
  /** The rule in words, such as `rule 7 of the nftables chain "ip nat POSTROUTING"`. */
  readonly what: string;
  /** How to delete the rule. */
  readonly help: Remedy;
  /** Whether it is in a table or chain of this project's plugins. */
  readonly isOwn: boolean;
}

/** Lists the rules that a packet and its answer passed. */
export function listPassed({ steps }: Trace, node: NodeReader): PassedRule[] {
  return steps.flatMap((step) => {
    using nftables = openNftables(step.netns);
    const rule = nftables && findRule(nftables, step);
    if (rule === undefined) return [];
    const isOwn = /^cni_/.test(step.table.name) || /^CNI-/.test(step.chain);
    return [{ step, rule, isOwn, ...describeRule(step, rule, node) }];
  });
}

/** Describes a rule, or a policy, and how to delete the rule. */
function describeRule(
  { table: { family, name }, chain, handle, netns }: PlacedStep,
  rule: Rule | undefined,
  node: NodeReader,
  base?: HookedChain,
): Pick<PassedRule, "what" | "help"> & { readonly isOfNode: boolean } {
  const isOfNode = isNetnsOfNode(node, netns);
  const at = `${family} ${name} ${chain}`;
  const words = shell`${family} ${name} ${chain}`;
  const comment = rule?.comment || xtablesCommentOf(rule?.expressions ?? []);
  return {
    isOfNode,
    what: (handle === undefined ? "" : `rule ${handle} of `) +
      `the nftables chain "${at}"` +
      (base === undefined ? "" : ` (${HOOKS[base.hook]})`) +
      (comment ? ` (comment "${comment}")` : "") +
      (isOfNode ? "" : " inside the container"),
    help: removal(
      inside(node, netns, `nft delete rule ${words} handle ${handle}`),
      inside(node, netns, `nft -a list chain ${words}`),
    ),
  };
}

/** Finds the chain that the kernel called, from which a rule's chain was reached. */
function findBase(
  nftables: Nftables,
  { steps }: Trace,
  step: PlacedStep,
): HookedChain | undefined {
  const hooked = nftables.listHookedChains();
  const before = steps.slice(0, steps.indexOf(step) + 1).toReversed();
  for (const { table, chain } of before) {
    const base = hooked.find((one) =>
      one.name === chain && one.table.name === table.name &&
      one.table.family === table.family
    );
    if (base !== undefined) return base;
  }
  return undefined;
}

/** Finds the rule of a decision. */
function findRule(
  nftables: Nftables,
  { table, chain, handle }: PlacedStep,
): Rule | undefined {
  return handle === undefined
    ? undefined
    : nftables.listRules(table, chain).find((rule) => rule.handle === handle);
}

function matchesAll({ expressions }: Rule): boolean {
  // An action of iptables, such as REJECT, is a target.
  return expressions.every(({ name }) =>
    IDLE.includes(name) || name === "target"
  );
}

/**
 * Reports whether an input rule drops packets to ports that the node does not serve,
 * rather than packets of containers: it names neither addresses nor links, and other
 * rules of the chains that lead to it accept packets.
 */
function isOfServices(
  nftables: Nftables,
  { table, chain }: PlacedStep,
  base: HookedChain,
  rule: Rule | undefined,
): boolean {
  const chains = new Set([base.name, chain]);
  return !namesAddressOrLink(rule?.expressions ?? []) &&
    [...chains].flatMap((one) => nftables.listRules(table, one))
      .some(({ expressions }) => {
        const { code, chain } = verdictOf(expressions) ?? {};
        return code === VERDICTS.accept ||
          chain !== undefined && !chains.has(chain);
      });
}

/**
 * Returns the command that makes a chain accept the packets of a subnet where it drops
 * them: rules before that, such as rules of NetworkPolicies, are applied first.
 */
function acceptIn(
  nftables: Nftables,
  step: PlacedStep,
  hook: number | undefined,
  subnet: Cidr,
  node: NodeReader,
): string {
  const { table, chain, handle, netns } = step;
  const { family } = subnet;
  if (isOfFirewalld(step, node)) {
    // A reload would remove rules of running containers.
    const add = `--zone=trusted --add-source=${subnet}`;
    return `firewall-cmd ${add} && firewall-cmd --permanent ${add}`;
  }
  const at = shell`${table.family} ${table.name} ${chain}`;
  const nft = handle === undefined
    ? `nft add rule ${at}`
    : `nft insert rule ${at} handle ${handle}`;
  if (table.family === "bridge" || table.family === "arp") {
    return inside(node, netns, `${nft} accept`);
  }
  const isIptables = table.name === "filter" && /^[A-Z]+$/.test(chain);
  const number = nftables.listRules(table, chain)
    .findIndex((rule) => rule.handle === handle) + 1;
  const iptables = (family === 4 ? "iptables" : "ip6tables") +
    (handle === undefined ? ` -A ${chain}` : ` -I ${chain} ${number}`);
  return listDirections(hook, isNetnsOfNode(node, netns)).map((direction) =>
    inside(
      node,
      netns,
      isIptables
        ? `${iptables} ${OPTIONS[direction]} ${subnet} -j ACCEPT`
        : `${nft} ${family === 4 ? "ip" : "ip6"} ${direction} ` +
          `${subnet} accept`,
    )
  ).join("; ");
}

type Direction = "saddr" | "daddr";

/** How iptables writes what nft calls `saddr` and `daddr`. */
const OPTIONS: Readonly<Record<Direction, string>> = {
  saddr: "-s",
  daddr: "-d",
};

/**
 * Lists where the packets of a hook have a container's address: what the node receives
 * is from the container, what the container receives is for it.
 */
function listDirections(
  hook: number | undefined,
  isOfNode: boolean,
): readonly Direction[] {
  if (hook !== INPUT && hook !== OUTPUT) return ["saddr", "daddr"];
  return (hook === INPUT) === isOfNode ? ["saddr"] : ["daddr"];
}

/** Explains a loss with the counters of legacy rules, which the kernel does not trace. */
function explainCounted(
  trace: Trace,
  node: NodeReader,
  subnet: Cidr,
): Cause | undefined {
  const { packets, answer, probe: { from } } = trace;
  const wasDropped = packets.some(({ end }) =>
    end?.reason === "NETFILTER_DROP"
  );
  if (!wasDropped && packets.length > 0) return undefined;
  const rules = listCounted(trace, node);
  const rule = rules.find((one) => intentionOf(one, node) === undefined) ??
    // Other packets might have changed the counter.
    (wasDropped ? rules[0] : undefined);
  if (rule === undefined) return undefined;
  const { netns } = rule;
  // A packet that is dropped before it leaves its namespace is not recorded, but the
  // sender gets an error.
  const isRefused = netns === from.netns.path && answer.error !== undefined &&
    rule.hooks.some((hook) => hook === "OUTPUT" || hook === "POSTROUTING");
  const { text, look } = describeCounted(rule, node);
  const intention = intentionOf(rule, node);
  if (intention !== undefined) return intended(text, intention, look);
  return {
    check: rule.hooks.includes("FORWARD") && dropsAll(rule)
      ? "forward-policy"
      : "rule-drops",
    text,
    // Other packets might have changed the counter.
    ...packets.length === 0 && !isRefused
      ? {
        advice: "check whether its counter grows with each lost packet, and " +
          "change it in the configuration of the program that added it",
      }
      : dropsAll(rule)
      ? { command: acceptCounted(rule, subnet, node) }
      : removal(inside(node, netns, deletionOf(rule)), ""),
    look: inside(node, netns, look),
  };
}

/**
 * Explains a loss of which no packet was recorded, if nothing else does, with a legacy
 * rule of a NetworkPolicy.
 */
export function explainPolicy(
  trace: Trace,
  node: NodeReader,
): Cause | undefined {
  if (trace.packets.length > 0) return undefined;
  for (const rule of listCounted(trace, node)) {
    const intention = isAtNode(rule) ? undefined : intentionOf(rule, node);
    if (intention === undefined) continue;
    const { text, look } = describeCounted(rule, node);
    return intended(text, intention, look);
  }
  return undefined;
}

/** Returns the text of a legacy rule's cause, and the command that shows the rule. */
function describeCounted(
  { program, table, netns, text }: CountedRule,
  node: NodeReader,
): { readonly text: string; readonly look: string } {
  return {
    text: `"${text}" in table ${table} of ${program} ` +
      (isNetnsOfNode(node, netns) ? "" : "inside the container ") +
      "drops packets",
    look: program.startsWith("ebtables")
      ? `${program} -t ${table} -L --Lc`
      : `${program}-save -c -t ${table}`,
  };
}

/** Lists the legacy rules that a probe's packets might have passed. */
function listCounted(
  { counted, places, probe: { from, destination } }: Trace,
  node: NodeReader,
): CountedRule[] {
  const isOfNode = isNetnsOfNode(node, from.netns.path) ||
    isOnHost(node, destination);
  return counted.filter((rule) =>
    places.some(({ netns }) => netns.path === rule.netns) &&
    (rule.program.startsWith("ebtables") ||
      rule.program.startsWith("ip6") === (destination.family === 6)) &&
    (isOfNode || !isNetnsOfNode(node, rule.netns) || !isAtNode(rule))
  );
}

/** Returns advice if a rule drops on purpose; undefined if it does not. */
function intentionOf(rule: CountedRule, node: NodeReader): string | undefined {
  const [, chain = ""] = rule.text.split(" ");
  if (!isNetnsOfNode(node, rule.netns)) return undefined;
  if (isOnPurpose(rule)) return SERVICES_ADVICE;
  return isOfPolicies(chain) ? POLICY_ADVICE : undefined;
}

/** Returns the command that accepts a subnet's packets where a legacy rule drops them. */
function acceptCounted(
  rule: CountedRule,
  subnet: Cidr,
  node: NodeReader,
): string {
  const { netns, hooks: [name = ""] } = rule;
  const hook = HOOKS.indexOf(name.toLowerCase());
  return listDirections(hook, isNetnsOfNode(node, netns)).map((direction) => {
    const accept = acceptanceOf(rule, [OPTIONS[direction], `${subnet}`]);
    return inside(node, netns, accept);
  }).join("; ");
}

/**
 * Explains that a packet leaves the node with the container's own address, although
 * its network is masqueraded.
 */
export function explainUntranslated(
  trace: Trace,
  node: NodeReader,
): Cause | undefined {
  const { connection, probe: { from } } = trace;
  const isTranslated = connection !== undefined &&
    !connection.reply.destination.equals(from.source);
  if (isTranslated) return undefined;
  for (const { step, rule, what, help } of listPassed(trace, node)) {
    using nftables = openNftables(step.netns);
    const base = nftables && findBase(nftables, trace, step);
    if (
      base?.type === "nat" && base.hook === POSTROUTING &&
      step.verdict === VERDICTS.accept &&
      translationOf(rule.expressions) === undefined
    ) {
      return {
        check: "rule-drops",
        text: `${what} accepts packets before they are masqueraded`,
        ...help,
      };
    }
  }
  return undefined;
}
