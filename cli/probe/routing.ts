/**
 * Finds the routing rule and the route that a packet matches. The kernel itself reports
 * neither of them if they refuse the packet.
 *
 * @module
 */

import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Rule } from "../../ffi/rtnl/rule.ts";
import type { Ip } from "../../net/ip.ts";

/** A packet that a namespace sends or forwards. */
export interface RoutedPacket {
  readonly source: Ip;
  readonly destination: Ip;
  /** Number of its IP protocol. */
  readonly protocol: number;
  /** The destination port; undefined for protocols without ports. */
  readonly port: number | undefined;
  /** Name of the link by which it arrived; `lo` for the namespace's own. */
  readonly input: string;
  /** 0 without a mark. */
  readonly mark: number;
}

/** The rule and the route of a packet. */
export interface Decision {
  readonly rule: Rule;
  /** Undefined if the rule itself refuses packets. */
  readonly route: RouteEntry | undefined;
}

/**
 * Finds the rule and the route that a packet matches.
 *
 * @param rules In order of their priority
 * @returns Undefined if no table has a route
 */
export function decide(
  rules: readonly Rule[],
  routes: readonly RouteEntry[],
  packet: RoutedPacket,
): Decision | undefined {
  for (const rule of rules) {
    if (!matches(rule, packet)) continue;
    if (rule.isStop) return { rule, route: undefined };
    const route = findRoute(routes, rule.table, packet.destination);
    const { suppressPrefixLength = -1 } = rule.selector;
    if (
      route !== undefined && route.type !== "throw" &&
      route.destination.prefixLength > suppressPrefixLength
    ) return { rule, route };
  }
  return undefined;
}

function matches(
  { source, selector }: Rule,
  packet: RoutedPacket,
): boolean {
  const { destination, inputName, mark, ipProtocol } = selector;
  if (source.family !== packet.source.family || selector.hasOthers) {
    return false;
  }
  const { destinationPorts: ports } = selector;
  const { port } = packet;
  const isMatch = source.contains(packet.source) &&
    destination.contains(packet.destination) &&
    (inputName === undefined || inputName === packet.input) &&
    (mark === undefined || ((packet.mark ^ mark.value) & mark.mask) === 0) &&
    (ipProtocol === undefined || ipProtocol === packet.protocol) &&
    (ports === undefined ||
      port !== undefined && ports.first <= port && port <= ports.last);
  return isMatch !== selector.isInverted;
}

function findRoute(
  routes: readonly RouteEntry[],
  table: number,
  destination: Ip,
): RouteEntry | undefined {
  return routes.filter((route) =>
    route.table === table && route.family === destination.family &&
    route.destination.contains(destination)
  ).sort((left, right) =>
    right.destination.prefixLength - left.destination.prefixLength ||
    left.priority - right.priority
  )[0];
}
