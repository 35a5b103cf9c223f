/**
 * Explains a lost packet with the kernel's own drop reason, where no rule drops it.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { PacketEnd } from "../../ffi/packet_events.ts";
import { listXfrmPolicies } from "../../ffi/xfrm.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { type Cause, removal } from "./cause.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { readSysctlOf } from "../node/sysctls.ts";
import type { Trace } from "./trace.ts";
import {
  describeLink,
  findLastLink,
  insideOf,
  type TracedLink,
} from "./traced_link.ts";

/** The kernel function that dropped a packet, and the last link that it passed. */
interface Ended extends PacketEnd {
  readonly last: TracedLink;
}

/**
 * Functions that free packets after their delivery: a raw socket is not a ping socket,
 * and a closed socket frees the packets that it received.
 */
const DELIVERED =
  /^(ping_rcv|icmp_rcv|icmpv6_rcv|tcp_v[46]_rcv|__udp[46]_lib_rcv|udpv6_\w+|packet_rcv|arp_rcv|arp_process|ndisc_rcv|skb_queue_purge_reason|sk_stream_kill_queues|raw_\w+)$/;

/**
 * Returns where the kernel dropped the first packet that it did not deliver. If the
 * probe was sent twice, both packets must have ended there.
 */
export function findEnded(trace: Trace): Ended | undefined {
  const { packets } = trace;
  const ends = packets.flatMap((packet): Ended[] => {
    const { end } = packet;
    if (end === undefined) return [];
    if (DELIVERED.test(end.location)) return [];
    // The rules of nftables are traced.
    if (end.location === "nft_do_chain") return [];
    const last = findLastLink(trace, packet);
    return last === undefined ? [] : [{ ...end, last }];
  });
  const isSure = (one: Ended): boolean =>
    packets.length === 1 && one.reason !== "NOT_SPECIFIED" ||
    ends.filter(({ location, last }) =>
        location === one.location && last.name === one.last.name
      ).length > 1;
  return ends.find(isSure);
}

/** Explains a loss with the kernel's drop reason, if that reason is sufficient. */
export function explainReason(
  trace: Trace,
  node: NodeReader,
): Cause | undefined {
  const ended = findEnded(trace);
  const { reason = "NETFILTER_DROP", last } = ended ?? {};
  if (reason === "NETFILTER_DROP") {
    return explainConntrack(node) ??
      // A policy that refuses what this node sends leaves no packet to be dropped.
      (ended === undefined ? explainXfrmPolicy(trace, node) : undefined);
  }
  if (reason === "XFRM_POLICY") return explainXfrmPolicy(trace, node);
  if (reason === "IP_RPFILTER" && last !== undefined) {
    return {
      check: "rp-filter",
      text: `reverse path filtering of ${describeLink(last)} drops packets: ` +
        "rp_filter is 1 (strict), and the route back is over a different link",
      // The kernel uses the higher value of "all" and the link. With slashes, a name
      // can contain dots.
      ...last.place === undefined
        ? { advice: "set rp_filter of that link to 2, in its namespace" }
        : {
          command: insideOf(
            last,
            shell`sysctl -w net/ipv4/conf/${last.name}/rp_filter=2`,
          ),
        },
      look: insideOf(last, shell`ip route get ${trace.probe.from.source}`),
    };
  }
  return undefined;
}

/** Explains a loss with the kernel's function and its drop reason. */
export function explainEnd(trace: Trace): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const { location, reason, last } = ended;
  const looks = [
    shell`ip -details -statistics link show ${last.name}`,
    "nstat -az",
  ].flatMap((command) => insideOf(last, command) ?? []);
  return {
    check: "packet-ends",
    text: `the kernel drops packets in ${location}()` +
      (reason === undefined || reason === "NOT_SPECIFIED"
        ? ""
        : ` (${reason})`) +
      `, after they ${last.isSent ? "left over" : "came in over"} ` +
      describeLink(last),
    isSymptom: true,
    advice: "the function and the reason show what to look for",
    look: looks.join("; ") || "lsns --type net",
  };
}

/** Entries expire between the loss and the reading. */
const FULL_SHARE = 0.95;

/** Explains that connection tracking drops packets of new connections. */
function explainConntrack(node: NodeReader): Cause | undefined {
  const [count = 0, most = 0] = ["count", "max"].map((name) =>
    Number(readSysctlOf(node.host, `net/netfilter/nf_conntrack_${name}`))
  );
  if (!(count >= FULL_SHARE * most) || count === 0) return undefined;
  return {
    check: "packet-ends",
    text:
      `the table of tracked connections is full: it has ${count} of ${most}`,
    command: `sysctl -w net.netfilter.nf_conntrack_max=${2 * most}`,
    advice: "and in /etc/sysctl.d; then find who opens so many connections",
    look: "conntrack -S; conntrack -L | awk '{print $4}' | sort | uniq -c",
  };
}

/** Finds an IPsec policy that drops packets or answers, or requires a tunnel for them. */
function explainXfrmPolicy(
  { probe: { from, destination: to } }: Trace,
  node: NodeReader,
): Cause | undefined {
  const policies = ifPossible(() => listXfrmPolicies(node.hostNetns)) ?? [];
  const covers = (one: Cidr, ip: Ip): boolean =>
    one.family === ip.family && one.contains(ip);
  const blocking = policies.find((
    { isBlock, isProtected, source, destination },
  ) =>
    (isBlock || isProtected) &&
    (covers(source, from.source) && covers(destination, to) ||
      covers(source, to) && covers(destination, from.source))
  );
  if (blocking === undefined) return undefined;
  const { source, destination, direction, isBlock } = blocking;
  const policy = `src ${source} dst ${destination} dir ${direction}`;
  return {
    check: "ipsec-blocks",
    text: `the IPsec policy "${policy}" ` +
      (isBlock
        ? "drops packets"
        : "requires a tunnel, which the packets do not use"),
    ...removal(
      `ip xfrm policy delete ${policy}`,
      "ip xfrm policy; ip xfrm state",
    ),
  };
}
