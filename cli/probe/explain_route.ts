/**
 * Explains that the routing of the node or of a container ends a packet: by the rule,
 * the route or the neighbour, and the command that deletes it.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { isBridge } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type Rule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { IpProtocol } from "../../ffi/nftables/trace.ts";
import type { Ip } from "../../net/ip.ts";
import { type Cause, removal } from "./cause.ts";
import { findMaster } from "../node/live.ts";
import { listUplinks } from "../node/routers.ts";
import type { Probe } from "./packet.ts";
import { decide, type Decision, type RoutedPacket } from "./routing.ts";

/** A namespace that routes a probe. */
export interface Hop {
  readonly netns: NetNs;
  /** Undefined for the node. */
  readonly container: string | undefined;
  /** The link by which the packet arrives; `lo` where it is sent. */
  readonly input: string;
}

/**
 * Explains by the first namespace where a rule or a route stops a probe.
 *
 * @param isToContainer Whether the destination is a container's
 */
export function explainStop(
  probe: Probe,
  hops: readonly Hop[],
  isToContainer: boolean,
): Cause | undefined {
  for (const hop of hops) {
    using rtnl = Rtnl.open(hop.netns.path);
    const { rules, routes, packet, decision } = decideAt(probe, hop, rtnl);
    // A firewall rule might mark the packet.
    const marks = rules.flatMap(({ selector: { mark } }) => mark?.value ?? []);
    const cause = describeStop(decision, hop, packet) ??
      marks.map((mark) => {
        const marked = { ...packet, mark };
        return describeStop(decide(rules, routes, marked), hop, marked);
      }).find(Boolean) ??
      (decision?.route?.type === "local" && hop.container === undefined
        ? explainOwn(rtnl, probe.destination, isToContainer, "lo")
        : undefined);
    if (cause !== undefined) return cause;
  }
  return undefined;
}

/**
 * Explains by the next hop: a static neighbour, or a link on which no host answers.
 *
 * @param containers Names of the links of containers
 */
export function explainNextHop(
  probe: Probe,
  hops: readonly Hop[],
  containers: readonly string[],
): Cause | undefined {
  for (const hop of hops) {
    using rtnl = Rtnl.open(hop.netns.path);
    const { decision: { rule, route } = {} } = decideAt(probe, hop, rtnl);
    if (rule === undefined || route?.isUnicast !== true) continue;
    const cause = explainNeighbor(rule, route, probe, hop, rtnl, containers);
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
  { mark, source: { family } }: RoutedPacket,
): Cause | undefined {
  if (decision === undefined) return undefined;
  const { rule: { isStop, priority, source }, route } = decision;
  const where = hop.container === undefined
    ? "the host"
    : `${hop.container}'s namespace`;
  const marked = mark === 0 ? "" : ` with mark ${mark}`;
  const ip = family === 4 ? "ip" : "ip -6";
  const look = inside(hop, `${ip} rule; ${ip} route show table all`);
  const delRule = inside(hop, `${ip} rule del pref ${priority}`);
  if (isStop) {
    return {
      check: "rule-stops",
      text: `the routing rule ${priority} of ${where} stops packets from ` +
        (source.prefixLength === 0 ? "all" : `${source}`) + marked,
      ...removal(delRule, look),
    };
  }
  if (route === undefined || !isStopping(route)) return undefined;
  const { type, destination, table } = route;
  const text = `the route "${type} ${destination}" of ${where} stops packets`;
  return {
    check: "packet-ends",
    ...isByRule(table)
      ? {
        text: `${text}${marked}: the routing rule ${priority} leads to its ` +
          `table ${table}`,
        ...removal(delRule, look),
      }
      : {
        text,
        ...removal(inside(hop, `${ip} route del ${type} ${destination}`), look),
      },
  };
}

/** The tables to which the kernel's own rules lead. */
const TABLES: readonly number[] = [Table.Default, Table.Main, Table.Local];

/** Reports whether only a rule that was added leads to a table. */
function isByRule(table: number): boolean {
  return !TABLES.includes(table);
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
    advice: ADD_DEFAULT,
    look: `ip -${family} route`,
  };
}

/** What to do on a node without a default route. */
export const ADD_DEFAULT =
  "add a default route with the program that manages the node's network";

/**
 * Explains that the node itself has an address.
 *
 * @param isContainers Whether the address is a container's; the node may need any other
 * @param only The link that must have it; any if undefined
 */
export function explainOwn(
  rtnl: Rtnl,
  ip: Ip,
  isContainers: boolean,
  only?: string,
): Cause | undefined {
  const own = rtnl.address.list().find(({ address }) => address.ip.equals(ip));
  const link = own && rtnl.link.find(own.ifindex)?.name;
  if (link === undefined || link !== (only ?? link)) return undefined;
  // Without the address of its uplink, the node would be cut off.
  const isUplink = listUplinks({ host: rtnl }).some(({ name }) =>
    name === link
  );
  return {
    check: "packet-ends",
    text: `the node itself has ${ip}, on "${link}"`,
    ...isContainers && !isUplink
      ? {
        command: shell`ip address del ${own?.address} dev ${link}`,
        advice: "unless the node is meant to answer there",
      }
      : {
        advice: isContainers
          ? "change the address of the container, not the node's"
          : "find out why the node does not answer there (for a ping, see " +
            "net.ipv4.icmp_echo_ignore_all); delete the address only if it " +
            "belongs to another host",
      },
    look: shell`ip address show to ${ip}`,
  };
}

function explainNeighbor(
  rule: Rule,
  route: RouteEntry,
  { destination }: Probe,
  hop: Hop,
  rtnl: Rtnl,
  containers: readonly string[],
): Cause | undefined {
  const [{ ifindex, gateway } = { ifindex: undefined, gateway: undefined }] =
    route.nextHops;
  const link = ifindex === undefined ? undefined : rtnl.link.find(ifindex);
  if (link === undefined) return undefined;
  const { name } = link;
  const nextHop = gateway ?? destination;
  const neighbor = new NeighborRequests(rtnl.socket)
    .list({ ifindex: link.index }).find(({ ip }) => ip.equals(nextHop));
  if (neighbor?.isPermanent === true) {
    const of = hop.container === undefined
      ? "of the node"
      : `in ${hop.container}`;
    const isGateway = rtnl.route.list({ ifindex: link.index })
      .some((one) => one.gateway?.equals(nextHop));
    const whose = hop.container && isGateway ? "its gateway " : "";
    return {
      check: "neighbor-wrong",
      text: `a static neighbour ${of} has ${neighbor.mac} for ${whose}` +
        `${nextHop} on "${name}", where no host answers`,
      command: inside(hop, shell`ip neigh del ${nextHop} dev ${name}`),
      look: inside(hop, shell`ip neigh show dev ${name}`),
    };
  }
  if (hop.container !== undefined || containers.includes(name)) {
    return undefined;
  }
  const look = shell`ip -details link show ${name}`;
  const master = findMaster(rtnl, link);
  if (master !== undefined && isBridge(master)) {
    return {
      check: "packet-ends",
      text: `"${name}", over which the node sends packets, is a port of the ` +
        `bridge "${master.name}", which takes what arrives`,
      // What else is behind the bridge may reach the network over this port only.
      advice:
        `move the addresses and routes of "${name}" to "${master.name}", ` +
        "or take it off the bridge if nothing else needs it there: " +
        shell`ip link set ${name} nomaster`,
      look,
    };
  }
  if (!link.isOperational) {
    return {
      check: "packet-ends",
      text: `the uplink "${name}" has no carrier`,
      advice: NO_CARRIER,
      look,
    };
  }
  return neighbor?.mac === undefined
    ? {
      ...explainSilence(rule, route, name, nextHop),
      look: shell`ip route get ${destination}`,
    }
    : undefined;
}

/** What to do about a link without carrier. */
export const NO_CARRIER =
  "check the cable or the other end: nothing on this node fixes it";

/** Explains a route of the node by a link on which its next hop does not answer. */
function explainSilence(
  { priority }: Rule,
  { destination, table, isDefault, origin }: RouteEntry,
  link: string,
  nextHop: Ip,
): Cause {
  const ip = destination.family === 4 ? "ip" : "ip -6";
  const command = isByRule(table)
    ? `${ip} rule del pref ${priority}`
    : isDefault || origin === "kernel"
    ? undefined
    : `${ip} ` + shell`route del ${destination} dev ${link}`;
  return {
    check: "packet-ends",
    text:
      `the node sends packets over the route ${destination} to ${nextHop} ` +
      `on "${link}", where no host answers` +
      (isByRule(table)
        ? `: the routing rule ${priority} leads to its table ${table}`
        : ""),
    command,
    advice: command === undefined
      ? `check ${nextHop}, or replace the route`
      : "or exclude the containers' packets in the program that added it, such " +
        "as a VPN",
  };
}

function inside({ container, netns }: Hop, command: string): string {
  if (container === undefined) return command;
  return command.split("; ")
    .map((one) => shell`nsenter --net=${netns.path} ` + one).join("; ");
}
