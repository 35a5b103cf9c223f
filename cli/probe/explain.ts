/**
 * The cause for which a traced probe was lost, and the command that ends it.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import {
  type Expression,
  isNotrack,
  namesAddressOrLink,
  verdictOf,
  VERDICTS,
  xtablesCommentOf,
} from "../../ffi/nftables/expression.ts";
import type { HookedChain, Nftables, Rule } from "../../ffi/nftables/mod.ts";
import type { PacketEnd } from "../../ffi/packet_events.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import { listXfrmPolicies } from "../../ffi/xfrm.ts";
import type { Cidr } from "../../net/cidr.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { type More, removal } from "../doctor/finding.ts";
import type { Node } from "../doctor/node.ts";
import { deletionOf } from "./legacy_rules.ts";
import { findDrop, type PlacedStep, type Trace } from "./trace.ts";

/** Why packets are lost. */
export interface Cause extends Omit<More, "about" | "fix" | "subject"> {
  /** The check that the cause belongs to, such as `rule-drops`. */
  readonly check: string;
  /** The evidence; one sentence without a full stop. */
  readonly text: string;
}

/** What an explanation may look at. */
export interface Scene {
  readonly node: Node;
  /** The subnet of the container. */
  readonly subnet: Cidr;
}

/** A rule drops packets as it is meant to. */
export const INTENDED = "intended";

/** Explains by what the kernel reported: rules, counters, and its own reasons. */
export function explain(
  trace: Trace,
  scene: Scene,
): Cause | typeof INTENDED | undefined {
  return explainRule(trace, scene) ?? explainCounted(trace) ??
    explainReason(trace, scene);
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
  // A chain that was jumped to has the conditions of the jump.
  const isForEverything = rule === undefined ||
    matchesAll(rule) && base?.name === chain;
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

function findRule(
  nftables: Nftables,
  { table, chain, handle }: PlacedStep,
): Rule | undefined {
  return handle === undefined
    ? undefined
    : nftables.listRules(table, chain).find((rule) => rule.handle === handle);
}

function describeComment(rule: Rule | undefined): string {
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

/** The kernel's function that ended a packet, and the link that it had passed last. */
interface Ended extends PacketEnd {
  readonly link: string;
  readonly isSent: boolean;
}

/**
 * Functions that end what they have delivered: a ping's raw socket is no ping socket,
 * and a socket that is closed frees what it received.
 */
const DELIVERED =
  /^(ping_rcv|icmp_rcv|icmpv6_rcv|tcp_v[46]_rcv|__udp[46]_lib_rcv|udpv6_\w+|packet_rcv|arp_rcv|arp_process|ndisc_rcv|skb_queue_purge_reason|sk_stream_kill_queues|raw_\w+)$/;

/**
 * Returns where the kernel ended the first packet that it did not deliver. If it was
 * sent twice, both must have ended there: chance would end one.
 */
export function findEnded({ packets }: Trace): Ended | undefined {
  const ends = packets.flatMap(({ end, links }): Ended[] => {
    const last = links.at(-1);
    if (end === undefined || last === undefined) return [];
    if (DELIVERED.test(end.location)) return [];
    // Its rules are traced.
    if (end.location === "nft_do_chain") return [];
    return [{ ...end, link: last.name, isSent: last.isSent }];
  });
  const isSure = (one: Ended): boolean =>
    packets.length === 1 && one.reason !== "NOT_SPECIFIED" ||
    ends.filter(({ location, link }) =>
        location === one.location && link === one.link
      ).length > 1;
  return ends.find(isSure);
}

/** Explains by the kernel's own reason, where it tells enough. */
function explainReason(trace: Trace, scene: Scene): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const { reason = "", link } = ended;
  if (reason === "NETFILTER_DROP") return explainConntrack(scene);
  if (reason === "XFRM_POLICY") return explainPolicy(scene);
  if (reason === "IP_RPFILTER") {
    return {
      check: "rp-filter",
      text: `reverse path filtering of "${link}" drops packets: rp_filter is ` +
        "1 (strict), and the route back is by a different link",
      command: `sysctl -w net.ipv4.conf.all.rp_filter=2; ` +
        shell`echo 2 > /proc/sys/net/ipv4/conf/${link}/rp_filter`,
      look: shell`ip route get ${trace.probe.from.source}`,
    };
  }
  if (reason === "TC_INGRESS" || reason === "TC_EGRESS") {
    const side = reason === "TC_INGRESS" ? "ingress" : "egress";
    return {
      check: "packet-ends",
      text: `a filter of traffic control drops packets on "${link}" (${side})`,
      advice: "delete the filter by its pref and handle: " +
        shell`tc filter del dev ${link} ` + `${side} pref PREF`,
      look: shell`tc -s filter show dev ${link} ` + side,
    };
  }
  if (/^QDISC_|^FQ_|^CAKE_/.test(reason)) {
    return {
      check: "packet-ends",
      text: `the qdisc of "${link}" drops packets (${reason})`,
      advice: "raise its limit or its burst, or remove it: " +
        shell`tc qdisc del dev ${link} root`,
      look: shell`tc -s qdisc show dev ${link}`,
    };
  }
  return undefined;
}

/** Explains by the function and the reason alone. */
export function explainEnd(trace: Trace): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const { location, reason, link, isSent } = ended;
  return {
    check: "packet-ends",
    text: `the kernel drops packets in ${location}()` +
      (reason === undefined || reason === "NOT_SPECIFIED"
        ? ""
        : ` (${reason})`) +
      `, after they ${isSent ? "left by" : "came in by"} "${link}"`,
    isVague: true,
    advice: "the function and the reason say what to look for",
    look: shell`ip -details -statistics link show ${link}; nstat -az`,
  };
}

/** Rules do not say that the table of connections is full: tracking drops the packet. */
function explainConntrack({ node }: Scene): Cause | undefined {
  using netns = NetNs.open(node.hostNetns);
  const [count, most] = inNetns(
    netns,
    () =>
      ["count", "max"].map((name) =>
        Number(
          ifPossible(() => readSysctl(`net/netfilter/nf_conntrack_${name}`)),
        )
      ),
  );
  if (count === undefined || most === undefined || count < most) {
    return undefined;
  }
  return {
    check: "packet-ends",
    text:
      `the table of tracked connections is full: it has ${count} of ${most}`,
    command: `sysctl -w net.netfilter.nf_conntrack_max=${2 * most}`,
    advice: "and in /etc/sysctl.d; then find who opens so many connections",
    look: "conntrack -S; conntrack -L | awk '{print $4}' | sort | uniq -c",
  };
}

function explainPolicy({ node, subnet }: Scene): Cause | undefined {
  const policies = ifPossible(() => listXfrmPolicies(node.hostNetns)) ?? [];
  const found = policies.find(({ isBlock, source, destination }) =>
    isBlock && [source, destination].some((one) => one.overlaps(subnet))
  );
  if (found === undefined) return undefined;
  const { source, destination, direction } = found;
  const policy = `src ${source} dst ${destination} dir ${direction}`;
  return {
    check: "ipsec-blocks",
    text: `the IPsec policy "${policy}" drops packets`,
    ...removal(`ip xfrm policy delete ${policy}`, "ip xfrm policy"),
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
      step.verdict === VERDICTS.accept && !isOwn(step)
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
