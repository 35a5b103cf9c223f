/**
 * Routes of one namespace.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import {
  addressFamily,
  AF_INET,
  AF_UNSPEC,
  Scope,
  Table,
} from "./constants.ts";
import { delRoute, getRoute, newRoute } from "./route_message.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTPROT_BOOT = 3;
const RTN_UNICAST = 1, RTNH_F_ONLINK = 4, RTM_F_CLONED = 0x200;
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
  /** Source address for senders that have not chosen one. */
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
  /** Whether it may have a preferred source that the kernel does not report. */
  readonly isSourceUntold?: boolean | undefined;
}

/** Which routes to list. */
export interface RouteFilter {
  /** Both families if undefined. */
  readonly family?: IpFamily;
  /** Index of the outgoing link. */
  readonly ifindex?: number;
  /** The main table if undefined. */
  readonly table?: number | "any";
}

/** Routes of the namespace in which the socket was opened. */
export class RouteRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds a route.
   *
   * @throws {NetlinkError} EEXIST if another one has the same destination and
   * priority, ENETUNREACH (IPv6: EHOSTUNREACH) if the gateway cannot be reached
   */
  add(route: Route): void {
    this.#new(route, Flag.Create | Flag.Exclusive);
  }

  /**
   * Adds a route next to others with the same destination: for IPv4 before
   * them, so that it is used, and for IPv6 as another next hop.
   *
   * Source: net/ipv4/fib_trie.c `fib_table_insert`.
   *
   * @throws {NetlinkError} EEXIST if the same route exists, ENETUNREACH,
   * EHOSTUNREACH
   */
  prepend(route: Route): void {
    this.#new(route, Flag.Create);
  }

  /**
   * Adds a route, or replaces the one with the same destination and priority,
   * even if that one has another outgoing link.
   *
   * @throws {NetlinkError} ENETUNREACH (IPv6: EHOSTUNREACH) if the gateway cannot be reached
   */
  replace(route: Route): void {
    this.#new(route, Flag.Create | Flag.Replace);
  }

  #new(route: Route, flags: number): void {
    this.#socket.request(newRoute, { flags, ...newRouteBody(route) });
  }

  /**
   * Deletes the first route that has all given values. Undefined matches
   * anything.
   *
   * @throws {NetlinkError} ESRCH if no route matches
   */
  del(route: Route): void {
    this.#socket.request(delRoute, {
      header: { ...headerOf(route), scope: route.scope ?? Scope.Nowhere },
      attributes: attributesOf(route),
    });
  }

  /**
   * Lists the unicast routes of one table, or of all. A route with several next
   * hops is listed once for each.
   *
   * @throws {NetlinkError} ENODEV if the link does not exist
   */
  list({ family, ifindex, ...filter }: RouteFilter = {}): Route[] {
    const table = filter.table === "any"
      ? undefined
      : filter.table ?? Table.Main;
    try {
      return this.#socket.dump(getRoute, {
        header: {
          family: family === undefined ? AF_UNSPEC : addressFamily(family),
          table: headerTable(table ?? Table.Unspecified),
        },
        attributes: { table, oif: ifindex },
      }, newRoute).filter(({ header }) =>
        header.type === RTN_UNICAST && !(header.flags & RTM_F_CLONED)
      ).flatMap(decodeRoutes).filter((route) =>
        (ifindex === undefined || route.ifindex === ifindex) &&
        (table === undefined || route.table === table)
      );
    } catch (error) {
      // The table has never had a route.
      if (isErrno(error, "ENOENT")) return [];
      throw error;
    }
  }
}

type RouteAnswer = ReturnType<typeof newRoute.decode>;

/** Returns one route for each next hop. */
function decodeRoutes({ header, attributes }: RouteAnswer): Route[] {
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
    // The kernel reports IPv6 routes to one destination together, with the
    // source of the first.
    ...family === 6 && position > 0
      ? { preferredSource: undefined, isSourceUntold: true }
      : {},
    ...nextHop,
    isOnLink: (flags & RTNH_F_ONLINK) !== 0,
  }));
}

/** A route with one next hop has it in its own attributes. */
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
export function newRouteBody(
  route: Route,
): Parameters<typeof newRoute.encode>[0] {
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

function headerOf(
  { destination, table = Table.Main }: Route,
): { family: number; destinationLength: number; table: number } {
  return {
    family: addressFamily(destination.family),
    destinationLength: destination.prefixLength,
    table: headerTable(table),
  };
}

/** Returns the table as the header of a route or rule has it. */
export function headerTable(table: number): number {
  return table > HEADER_TABLE_MAX ? Table.Unspecified : table;
}

function attributesOf(
  route: Route,
): NonNullable<Parameters<typeof newRoute.encode>[0]["attributes"]> {
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
