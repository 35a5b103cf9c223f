/**
 * Routes with a single next hop, and their messages.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { addressFamily, AF_INET, Scope, Table } from "./constants.ts";
import type { newRoute } from "./route_message.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTPROT_BOOT = 3;
/** The type of unicast routes. Source: include/uapi/linux/rtnetlink.h. */
export const RTN_UNICAST = 1;
/**
 * The flag of gateways that count as on the link. Source:
 * include/uapi/linux/rtnetlink.h.
 */
export const RTNH_F_ONLINK = 4;
/** The header has eight bits for a table; larger numbers are in RTA_TABLE only. */
const HEADER_TABLE_MAX = 255;

/** A unicast route. */
export interface Route {
  /** Destination; host bits are not allowed. */
  readonly destination: Cidr;
  /** Index of the outgoing link. */
  readonly ifindex?: number | undefined;
  /** The router; undefined if the destination is on the link. */
  readonly gateway?: Ip | undefined;
  /** Source address of packets whose sender did not choose any. */
  readonly preferredSource?: Ip | undefined;
  /** Scope, 0 (universe) to 255; the kernel ignores it for IPv6. */
  readonly scope?: number | undefined;
  /** Routing table; main (254) if undefined. */
  readonly table?: number | undefined;
  /** Priority; the lowest wins. */
  readonly priority?: number | undefined;
  /** Largest packet to send over this route, in bytes. */
  readonly mtu?: number | undefined;
  /** Largest TCP segment to announce, in bytes. */
  readonly advmss?: number | undefined;
  /** Whether the gateway counts as on the link even without a route to it. */
  readonly isOnLink?: boolean | undefined;
  /** Whether it might have a preferred source that the kernel does not report. */
  readonly isSourceUntold?: boolean | undefined;
}

type RouteAnswer = ReturnType<typeof newRoute.decode>;
type RouteBody = Parameters<typeof newRoute.encode>[0];

/** Returns a route for each next hop. */
export function decodeRoutes({ header, attributes }: RouteAnswer): Route[] {
  const family = header.family === AF_INET ? 4 : 6;
  const destination = attributes.destination ?? Ip.fromValue(family, 0n);
  const shared = {
    destination: Cidr.of(destination, header.destinationLength),
    preferredSource: attributes.preferredSource,
    scope: header.scope,
    table: attributes.table ?? header.table,
    priority: attributes.priority,
    mtu: attributes.metrics?.mtu,
    advmss: attributes.metrics?.advmss,
  };
  return nextHopsOf({ header, attributes }).map((
    { flags, ...nextHop },
    position,
  ) => ({
    ...shared,
    // The kernel reports IPv6 routes to the same destination together, with the
    // source of the first route.
    ...family === 6 && position > 0
      ? { preferredSource: undefined, isSourceUntold: true }
      : {},
    ...nextHop,
    isOnLink: (flags & RTNH_F_ONLINK) !== 0,
  }));
}

/** A route with a single next hop contains it in its own attributes. */
function nextHopsOf(
  { header: { flags }, attributes }: RouteAnswer,
): (Pick<Route, "ifindex" | "gateway"> & { flags: number })[] {
  const { oif: ifindex, gateway, multipath } = attributes;
  return multipath?.map(({ header, attributes }) => ({
    ifindex: header.ifindex,
    gateway: attributes.gateway,
    flags: header.flags,
  })) ?? [{ ifindex, gateway, flags }];
}

/** Encodes a route to add. */
export function newRouteBody(route: Route): RouteBody {
  return {
    header: {
      ...headerOf(route),
      protocol: RTPROT_BOOT,
      scope: route.scope ?? Scope.Universe,
      type: RTN_UNICAST,
      flags: route.isOnLink ? RTNH_F_ONLINK : 0,
    },
    attributes: attributesOf(route),
  };
}

/** Encodes the values that identify a route to delete. */
export function delRouteBody(route: Route): RouteBody {
  return {
    header: { ...headerOf(route), scope: route.scope ?? Scope.Nowhere },
    attributes: attributesOf(route),
  };
}

function headerOf(
  { destination, table = Table.Main }: Route,
): { family: number; destinationLength: number; table: number } {
  return {
    family: addressFamily(destination.family),
    destinationLength: destination.prefixLength,
    table: headerTable(table),
  };
}

/** Returns a table's number in the header of a route or rule. */
export function headerTable(table: number): number {
  return table > HEADER_TABLE_MAX ? Table.Unspecified : table;
}

function attributesOf(
  route: Route,
): NonNullable<RouteBody["attributes"]> {
  const { destination, table, mtu, advmss } = route;
  return {
    destination: destination.prefixLength === 0 ? undefined : destination.ip,
    oif: route.ifindex,
    gateway: route.gateway,
    priority: route.priority,
    preferredSource: route.preferredSource,
    metrics: mtu === undefined && advmss === undefined
      ? undefined
      : { mtu, advmss },
    table: table !== undefined && table > HEADER_TABLE_MAX ? table : undefined,
  };
}
