/**
 * The kernel's own reasons for which a packet ends: what no rule decides.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import type { PacketEnd } from "../../ffi/packet_events.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import { listXfrmPolicies } from "../../ffi/xfrm.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { FORWARDING } from "../../plugins/parts/address/ip_forward.ts";
import { removal } from "../doctor/finding.ts";
import { nameOfSysctl, readHostSysctl } from "../doctor/sysctls.ts";
import type { Cause, Scene } from "./cause.ts";
import type { Trace } from "./trace.ts";

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
export function explainReason(trace: Trace, scene: Scene): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const { reason = "" } = ended;
  const link = reason === "TC_EGRESS"
    ? findOutput(trace, scene) ?? ended.link
    : ended.link;
  if (reason === "NETFILTER_DROP") return explainConntrack(scene);
  if (reason === "XFRM_POLICY") return explainPolicy(trace, scene);
  if (reason === "OTHERHOST" || reason === "NO_TX_TARGET") {
    return explainNeighbor(trace, scene);
  }
  if (reason === "IP_INADDRERRORS") {
    const key = `net/ipv4/conf/${link}/forwarding`;
    const isOn = readHostSysctl(scene.node, FORWARDING[4]) !== "0";
    if (isOn && readHostSysctl(scene.node, key) === "0") {
      return {
        check: "packet-ends",
        text: `${nameOfSysctl(key)} is 0`,
        command: shell`echo 1 > /proc/sys/${key}`,
        look: shell`ip -4 netconf show dev ${link}`,
      };
    }
  }
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

/** Finds a policy that drops the packets or answers, or wants a tunnel for them. */
function explainPolicy(
  { probe: { from, destination: to } }: Trace,
  { node }: Scene,
): Cause | undefined {
  const policies = ifPossible(() => listXfrmPolicies(node.hostNetns)) ?? [];
  const covers = (one: Cidr, ip: Ip): boolean =>
    one.family === ip.family && one.contains(ip);
  const found = policies.find(({ isBlock, isProtected, source, destination }) =>
    (isBlock || isProtected) &&
    (covers(source, from.source) && covers(destination, to) ||
      covers(source, to) && covers(destination, from.source))
  );
  if (found === undefined) return undefined;
  const { source, destination, direction, isBlock } = found;
  const policy = `src ${source} dst ${destination} dir ${direction}`;
  return {
    check: "ipsec-blocks",
    text: `the IPsec policy "${policy}" ` +
      (isBlock
        ? "drops packets"
        : "demands a tunnel, which packets do not have"),
    ...removal(
      `ip xfrm policy delete ${policy}`,
      "ip xfrm policy; ip xfrm state",
    ),
  };
}

/** Finds a static neighbour with a MAC that nobody has. */
function explainNeighbor(
  { probe: { from, destination } }: Trace,
  { node }: Scene,
): Cause | undefined {
  const next = (rtnl: Rtnl): Ip =>
    ifPossible(() => rtnl.route.lookUp({ destination }))?.gateway ??
      destination;
  using own = Rtnl.open(from.netns.path);
  for (const rtnl of [node.host, own]) {
    const ip = next(rtnl);
    const found = new NeighborRequests(rtnl.socket).list()
      .find((one) => one.isPermanent && one.ip.equals(ip));
    if (found === undefined) continue;
    const link = rtnl.link.find(found.ifindex)?.name;
    const isHost = rtnl === node.host;
    const inside = isHost ? "" : shell`nsenter --net=${from.netns.path} `;
    return {
      check: "packet-ends",
      text: `a static neighbour ${isHost ? "of the node" : "in a container"} ` +
        `has ${found.mac} for ${ip} on "${link}", which is not its MAC`,
      isVague: true,
      command: inside + shell`ip neigh del ${ip} dev ${link}`,
      look: `${inside}ip neigh show ${ip}`,
    };
  }
  return undefined;
}

/** Returns the name of the link by which the node sends a probe on. */
function findOutput(
  { probe: { destination } }: Trace,
  { node }: Scene,
): string | undefined {
  const index = node.host.route.findOutput(destination);
  return index === undefined ? undefined : node.host.link.find(index)?.name;
}
