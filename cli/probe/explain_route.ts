/**
 * Explains that the routing of the node or of a container ends a packet: by the rule
 * or the route, and the command that takes it away.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type Rule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { IpProtocol } from "../../ffi/nftables/trace.ts";
import type { IpFamily } from "../../net/ip.ts";
import type { Cause } from "./cause.ts";
import type { Probe } from "./packet.ts";
import { decide, type Decision, type RoutedPacket } from "./routing.ts";

/** A namespace on the way of a probe. */
export interface Hop {
  readonly netns: NetNs;
  /** Undefined for the node. */
  readonly container: string | undefined;
  /** The link by which it arrives; `lo` where it is sent. */
  readonly input: string;
}

/** Source: include/uapi/linux/rtnetlink.h `RT_TABLE_*`. */
const DEFAULT = 253, MAIN = 254, LOCAL = 255;

/** Explains by the first namespace where a rule or a route stops a probe. */
export function explainStop(
  probe: Probe,
  hops: readonly Hop[],
): Cause | undefined {
  for (const hop of hops) {
    using rtnl = Rtnl.open(hop.netns.path);
    const { rules, routes, packet, decision } = decideAt(probe, hop, rtnl);
    const { family } = packet.source;
    const cause = describeStop(decision, hop, family) ??
      // A rule of a firewall may mark it.
      rules.flatMap(({ selector: { mark } }) => mark ?? [])
        .map(({ value: mark }) =>
          describeStop(
            decide(rules, routes, { ...packet, mark }),
            hop,
            family,
            mark,
          )
        ).find(Boolean) ??
      (decision?.route?.type === "local"
        ? explainLocal(probe, hop, rtnl)
        : undefined);
    if (cause !== undefined) return cause;
  }
  return undefined;
}

/**
 * Explains by the next hop: a static neighbour, or a link on which nobody answers.
 *
 * @param links Names of links that other checks look at
 */
export function explainNextHop(
  probe: Probe,
  hops: readonly Hop[],
  links: {
    readonly containers: readonly string[];
    readonly uplinks: readonly string[];
  },
): Cause | undefined {
  const { containers } = links;
  const known = [...containers, ...links.uplinks];
  for (const hop of hops) {
    using rtnl = Rtnl.open(hop.netns.path);
    const { decision: { rule, route } = {} } = decideAt(probe, hop, rtnl);
    if (rule === undefined || route?.isUnicast !== true) continue;
    const cause = explainNeighbor(rule, route, {
      probe,
      hop,
      rtnl,
      known,
      containers,
    });
    if (cause !== undefined) return cause;
  }
  return undefined;
}

function decideAt(
  { from: { source }, destination, port, protocol }: Probe,
  { input }: Hop,
  rtnl: Rtnl,
): {
  readonly rules: readonly Rule[];
  readonly routes: readonly RouteEntry[];
  readonly packet: RoutedPacket;
  readonly decision: Decision | undefined;
} {
  const rules = new RuleRequests(rtnl.socket).list();
  const routes = rtnl.route.listEntries();
  const packet: RoutedPacket = {
    source,
    destination,
    port,
    protocol: protocol === "tcp"
      ? IpProtocol.tcp
      : protocol !== "ping"
      ? IpProtocol.udp
      : source.family === 4
      ? IpProtocol.icmp
      : IpProtocol.icmp6,
    input,
    mark: 0,
  };
  return { rules, routes, packet, decision: decide(rules, routes, packet) };
}

/** Explains a rule or a route that stops packets. */
function describeStop(
  decision: Decision | undefined,
  hop: Hop,
  family: IpFamily,
  mark?: number,
): Cause | undefined {
  if (decision === undefined) return undefined;
  const { rule, route } = decision;
  const { isStop, priority } = rule;
  const where = hop.container === undefined
    ? "the host"
    : `${hop.container}'s namespace`;
  const marked = mark === undefined ? "" : ` with mark ${mark}`;
  const ip = family === 4 ? "ip" : "ip -6";
  const look = inside(hop, `${ip} rule; ${ip} route show table all`);
  if (isStop) {
    return {
      check: "rule-stops",
      text: `the routing rule ${priority} of ${where} stops packets from ` +
        (rule.source.prefixLength === 0 ? "all" : `${rule.source}`) + marked,
      command: inside(hop, `${ip} rule del pref ${priority}`),
      advice: "and tell the program that added it, or it comes back",
      look,
    };
  }
  if (route === undefined || !isStopping(route)) return undefined;
  const { type, destination, table } = route;
  const isByRule = ![DEFAULT, MAIN, LOCAL].includes(table);
  const text = `the route "${type} ${destination}" of ${where} stops packets`;
  return {
    check: "packet-ends",
    text: isByRule
      ? `${text}${marked}: the routing rule ${priority} leads to its table ${table}`
      : text,
    command: inside(
      hop,
      isByRule
        ? `${ip} rule del pref ${priority}`
        : `${ip} route del ${type} ${destination}`,
    ),
    advice: "and tell the program that added it, or it comes back",
    look,
  };
}

function isStopping({ type }: RouteEntry): boolean {
  return type === "blackhole" || type === "unreachable" || type === "prohibit";
}

/** Explains that the node has no route to a destination; undefined if it has one. */
export function explainNone(
  probe: Probe,
  hops: readonly Hop[],
): Cause | undefined {
  const hop = hops.find(({ container }) => container === undefined);
  if (hop === undefined) return undefined;
  using rtnl = Rtnl.open(hop.netns.path);
  if (decideAt(probe, hop, rtnl).decision !== undefined) return undefined;
  const { destination } = probe;
  const { family } = destination;
  return {
    check: "packet-ends",
    text: `the node has no IPv${family} route to ${destination}`,
    advice:
      "add a default route by the program that manages the node's network",
    look: `ip -${family} route`,
  };
}

/** Explains that the node itself has the destination, on its loopback. */
function explainLocal(
  { destination }: Probe,
  hop: Hop,
  rtnl: Rtnl,
): Cause | undefined {
  const own = rtnl.address.list()
    .find(({ address }) => address.ip.equals(destination));
  const owner = own === undefined ? undefined : rtnl.link.find(own.ifindex);
  if (hop.container !== undefined || owner?.name !== "lo") return undefined;
  return {
    check: "packet-ends",
    text: `the node itself has ${destination}, on "lo"`,
    command: shell`ip address del ${own?.address} dev lo`,
    advice: "unless the node is meant to answer there",
    look: shell`ip route get ${destination}`,
  };
}

function explainNeighbor(
  rule: Rule,
  route: RouteEntry,
  { probe: { destination }, hop, rtnl, known, containers }: {
    readonly probe: Probe;
    readonly hop: Hop;
    readonly rtnl: Rtnl;
    readonly known: readonly string[];
    readonly containers: readonly string[];
  },
): Cause | undefined {
  const [next] = route.nextHops;
  const link = next?.ifindex === undefined
    ? undefined
    : rtnl.link.find(next.ifindex);
  if (link === undefined) return undefined;
  const nextHop = next?.gateway ?? destination;
  const neighbor = new NeighborRequests(rtnl.socket)
    .list({ ifindex: link.index }).find(({ ip }) => ip.equals(nextHop));
  const where = hop.container ?? "the node";
  // Static neighbours of containers and their gateways: see neighbor-wrong.
  const isOthers = hop.container === undefined
    ? !containers.includes(link.name)
    : next?.gateway === undefined;
  if (neighbor?.isPermanent === true && isOthers) {
    return {
      check: "packet-ends",
      text:
        `a static neighbour of ${where} has ${neighbor.mac} for ${nextHop} ` +
        `on "${link.name}", where nobody answers`,
      command: inside(hop, shell`ip neigh del ${nextHop} dev ${link.name}`),
      look: inside(hop, shell`ip neigh show dev ${link.name}`),
    };
  }
  if (neighbor?.mac !== undefined || hop.container !== undefined) {
    return undefined;
  }
  const master = link.masterIndex === undefined
    ? undefined
    : rtnl.link.find(link.masterIndex);
  if (master?.kind === "bridge") {
    return {
      check: "packet-ends",
      text:
        `"${link.name}", by which the node sends packets, is a port of the ` +
        `bridge "${master.name}", which takes what arrives`,
      command: shell`ip link set ${link.name} nomaster`,
      advice:
        `or move the addresses and routes of "${link.name}" to the bridge`,
      look: shell`ip -details link show ${link.name}`,
    };
  }
  return known.includes(link.name) ? undefined : explainSilence(rule, route, {
    hop,
    link: link.name,
    nextHop,
    look: shell`ip route get ${destination}`,
  });
}

/** Explains a route by a link on which its next hop does not tell its MAC. */
function explainSilence(
  { priority, table }: Rule,
  { destination, table: own, isDefault, origin }: RouteEntry,
  { hop, link, nextHop, look }: {
    readonly hop: Hop;
    readonly link: string;
    readonly nextHop: unknown;
    readonly look: string;
  },
): Cause {
  const ip = destination.family === 4 ? "ip" : "ip -6";
  const isByRule = ![DEFAULT, MAIN, LOCAL].includes(table);
  const where = hop.container ?? "the node";
  const canGo = !isDefault && origin !== "kernel";
  return {
    check: "packet-ends",
    text:
      `${where} sends packets by the route ${destination} to ${nextHop} on ` +
      `"${link}", where nobody answers` +
      (isByRule
        ? `: the routing rule ${priority} leads to its table ${own}`
        : ""),
    command: isByRule
      ? inside(hop, `${ip} rule del pref ${priority}`)
      : canGo
      ? inside(hop, shell`${ip} route del ${destination} dev ${link}`)
      : undefined,
    advice: isByRule || canGo
      ? "or exclude the containers' packets in the program that added it, such " +
        "as a VPN"
      : `look at ${nextHop}, or replace the route`,
    look,
  };
}

function inside({ container, netns }: Hop, command: string): string {
  if (container === undefined) return command;
  return command.split("; ")
    .map((one) => shell`nsenter --net=${netns.path} ` + one).join("; ");
}
