/**
 * The cause for which a traced probe was lost, and the command that ends it.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import {
  type Expression,
  isNotrack,
  namesAddressOrLink,
  translationOf,
  verdictOf,
  VERDICTS,
  xtablesCommentOf,
} from "../../ffi/nftables/expression.ts";
import type { HookedChain, Nftables, Rule } from "../../ffi/nftables/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { removal } from "../doctor/finding.ts";
import type { Cause, Scene } from "./cause.ts";
import { explainReason, findEnded } from "./reasons.ts";
import { explainLink } from "./explain_link.ts";
import { deletionOf } from "./legacy_rules.ts";
import { findDrop, type PlacedStep, type Trace } from "./trace.ts";

/** A rule drops packets as it is meant to. */
export const INTENDED = "intended";

/** Explains by what the kernel reported: rules, counters, and its own reasons. */
export function explain(
  trace: Trace,
  scene: Scene,
): Cause | typeof INTENDED | undefined {
  return explainRule(trace, scene) ?? explainCounted(trace) ??
    explainLink(trace, scene.node) ?? explainChange(trace) ??
    explainReason(trace, scene);
}

/** Functions in which routing drops a packet. */
const ROUTING =
  /^(ip_error|ip6?_forward|ip_rcv_finish_core|ip6_pkt_drop|ip_route_\w+)$/;
/** Steps of rules that change a packet, or how it is routed. */
const CHANGES = ["target", "payload", "meta"];

/** Explains that routing drops what a rule has changed: its TTL, or its mark. */
function explainChange(trace: Trace): Cause | undefined {
  if (!ROUTING.test(findEnded(trace)?.location ?? "")) return undefined;
  for (const step of trace.steps) {
    if (step.verdict === VERDICTS.accept || isOwn(step)) continue;
    using nftables = openNftables(step.netns);
    const rule = nftables && findRule(nftables, step);
    const last = rule?.expressions.findLast(({ name }) => name !== "counter");
    if (rule === undefined || last === undefined) continue;
    if (!CHANGES.includes(last.name)) continue;
    const { table: { family, name }, chain, handle } = step;
    const at = `${family} ${name} ${chain}`;
    return {
      check: "rule-drops",
      text: `rule ${handle} of the nftables chain "${at}"` +
        `${describeComment(rule)} changes packets, and routing then drops them`,
      ...removal(
        `nft delete rule ${at} handle ${handle}`,
        `nft -a list chain ${at}`,
      ),
    };
  }
  return undefined;
}

/** Source: include/uapi/linux/netfilter.h `NF_INET_*`. */
const INPUT = 1, FORWARD = 2, OUTPUT = 3;
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting"];
/** Steps of rules that match every packet. */
const IDLE = ["counter", "immediate", "reject", "log"];

function explainRule(
  trace: Trace,
  scene: Scene,
): Cause | typeof INTENDED | undefined {
  const step = findDrop(trace);
  if (step === undefined) return undefined;
  const { table, chain, netns, handle } = step;
  const at = `${table.family} ${table.name} ${chain}`;
  using nftables = openNftables(netns);
  if (nftables === undefined) return undefined;
  const base = findBase(nftables, trace, step);
  const rule = findRule(nftables, step);
  // A chain that was jumped to has the conditions of the jump, but for the zones of
  // firewalld, whose rules are its own: they come back, and are not to be deleted.
  const isForEverything = rule === undefined ||
    matchesAll(rule) && (base?.name === chain || table.name === "firewalld");
  const isOnHost = netns === scene.node.hostNetns;
  // Some nodes keep all that they do not serve to themselves, on purpose.
  if (isOnHost && base?.hook === INPUT && isOnPurpose(nftables, step, rule)) {
    return INTENDED;
  }
  if (isOwn(step)) return INTENDED;
  const inside = (command: string): string =>
    isOnHost ? command : shell`nsenter --net=${netns} ` + command;
  const of = `the nftables chain "${at}"` +
    (base === undefined ? "" : ` (${HOOKS[base.hook]})`);
  const where = isOnHost ? "" : " inside the container";
  const text = handle === undefined
    ? `${of}${where} has policy drop, and no rule accepts the packets`
    : `rule ${handle} of ${of}${describeComment(rule)} drops packets${where}`;
  const look = inside(`nft -a list chain ${at}`);
  if (!isForEverything) {
    return {
      check: "rule-drops",
      text,
      ...removal(inside(`nft delete rule ${at} handle ${handle}`), look),
    };
  }
  return {
    check: base?.hook === FORWARD && table.family !== "bridge"
      ? "forward-policy"
      : "rule-drops",
    text,
    command: inside(acceptIn(step, base?.hook, scene.subnet)),
    look,
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
    const found = hooked.find((one) =>
      one.name === chain && one.table.name === table.name &&
      one.table.family === table.family
    );
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Finds the rule of a step. */
export function findRule(
  nftables: Nftables,
  { table, chain, handle }: PlacedStep,
): Rule | undefined {
  return handle === undefined
    ? undefined
    : nftables.listRules(table, chain).find((rule) => rule.handle === handle);
}

/** Describes the comment of a rule, in brackets. */
export function describeComment(rule: Rule | undefined): string {
  const comment = rule?.comment || xtablesCommentOf(rule?.expressions ?? []);
  return comment ? ` (comment "${comment}")` : "";
}

function matchesAll({ expressions }: Rule): boolean {
  return expressions.every((one) => IDLE.includes(one.name) || isTarget(one));
}

/** Reports whether it is an action of iptables, such as `-j REJECT`. */
function isTarget({ name }: Expression): boolean {
  return name === "target";
}

/**
 * Reports whether a rule of the node's input drops what is not for it, rather than
 * what comes from containers: it names neither addresses nor links, and other rules
 * accept something.
 */
function isOnPurpose(
  nftables: Nftables,
  { table, chain }: PlacedStep,
  rule: Rule | undefined,
): boolean {
  return !namesAddressOrLink(rule?.expressions ?? []) &&
    nftables.listRules(table, chain).some(({ expressions }) =>
      verdictOf(expressions)?.code === VERDICTS.accept ||
      verdictOf(expressions)?.chain !== undefined
    );
}

/** Reports whether the plugin firewall isolates a network on purpose. */
function isOwn({ table, chain }: PlacedStep): boolean {
  return table.name.startsWith("cni_") || chain.startsWith("CNI-ISOLATION");
}

/** Returns the command that lets a container's subnet through a chain of any program. */
function acceptIn(
  { table, chain }: PlacedStep,
  hook: number | undefined,
  subnet: Cidr,
): string {
  const { family } = subnet;
  if (table.name === "firewalld") {
    // A reload would take away rules of running containers.
    const add = `--zone=trusted --add-source=${subnet}`;
    return `firewall-cmd ${add} && firewall-cmd --permanent ${add}`;
  }
  const at = `${table.family} ${table.name} ${chain}`;
  if (table.family === "bridge" || table.family === "arp") {
    return `nft insert rule ${at} accept`;
  }
  const directions = hook === INPUT
    ? ["saddr"]
    : hook === OUTPUT
    ? ["daddr"]
    : ["saddr", "daddr"];
  const isIptables = table.name === "filter" && /^[A-Z]+$/.test(chain);
  return directions.map((direction) =>
    isIptables
      ? `${family === 4 ? "iptables" : "ip6tables"} -I ${chain} ` +
        `${direction === "saddr" ? "-s" : "-d"} ${subnet} -j ACCEPT`
      : `nft insert rule ${at} ${family === 4 ? "ip" : "ip6"} ${direction} ` +
        `${subnet} accept`
  ).join("; ");
}

/** Explains by counters of legacy rules, which the kernel does not trace. */
function explainCounted({ counted, packets }: Trace): Cause | undefined {
  const [rule] = counted;
  const wasDropped = packets.length === 0 ||
    packets.some(({ end }) => end?.reason === "NETFILTER_DROP");
  if (rule === undefined || !wasDropped) return undefined;
  const { program, table, text } = rule;
  return {
    check: /^-P FORWARD |^-A FORWARD -j /.test(text)
      ? "forward-policy"
      : "rule-drops",
    text: `"${text}" in table ${table} of ${program} drops packets`,
    ...removal(
      deletionOf(rule),
      program.startsWith("ebtables")
        ? `${program} -t ${table} -L --Lc`
        : `${program}-save -c -t ${table}`,
    ),
  };
}

/**
 * Explains that a packet leaves the node with the container's own address, although
 * its network is masqueraded.
 */
export function explainUntranslated(trace: Trace): Cause | undefined {
  const { steps, connection, probe: { from } } = trace;
  if (connection !== undefined) {
    if (!connection.reply.destination.equals(from.source)) return undefined;
  }
  for (const step of steps) {
    using nftables = openNftables(step.netns);
    const rule = nftables && findRule(nftables, step);
    if (nftables === undefined || rule === undefined) continue;
    const { table: { family, name }, chain, handle } = step;
    const at = `${family} ${name} ${chain}`;
    const help = removal(
      `nft delete rule ${at} handle ${handle}`,
      `nft -a list chain ${at}`,
    );
    const what = `rule ${handle} of the nftables chain "${at}"${
      describeComment(rule)
    }`;
    if (connection === undefined && rule.expressions.some(isNotrack)) {
      return {
        check: "untracked",
        text: `${what} has connections not tracked, so that they are not ` +
          "masqueraded",
        ...help,
      };
    }
    const base = findBase(nftables, trace, step);
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

const POSTROUTING = 4;
