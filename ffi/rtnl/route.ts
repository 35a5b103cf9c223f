/**
 * Routes of a namespace.
 *
 * @module
 */

import type { Ip, IpFamily } from "../../net/ip.ts";
import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { addressFamily, AF_UNSPEC, Table } from "./constants.ts";
import {
  decodeRoutes,
  delRouteBody,
  headerTable,
  newRouteBody,
  type Route,
  RTN_UNICAST,
} from "./route_body.ts";
import { RouteEntry } from "./route_entry.ts";
import { delRoute, getRoute, newRoute } from "./route_message.ts";

export type { Route } from "./route_body.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTM_F_CLONED = 0x200,
  RTM_F_LOOKUP_TABLE = 0x1000,
  RTM_F_FIB_MATCH = 0x2000;
/** Errors for a destination without a route, or whose route refuses packets. */
const NO_ROUTE = ["ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES"] as const;

/** Which routes to list. */
export interface RouteFilter {
  /** Both families if undefined. */
  readonly family?: IpFamily;
  /** Index of the outgoing link. */
  readonly ifindex?: number;
  /** The main table if undefined. */
  readonly table?: number | "any";
}

/** A packet to look up. */
export interface Packet {
  /** The destination address. */
  readonly destination: Ip;
  /** The source address; chosen by the kernel if undefined. */
  readonly source?: Ip | undefined;
  /** Index of the link on which it arrives, if it is forwarded. */
  readonly inputIndex?: number | undefined;
}

/** The path of a packet. */
export interface Lookup {
  /** Index of the link through which it leaves. */
  readonly ifindex: number | undefined;
  /** The router; undefined if the destination is on the link. */
  readonly gateway: Ip | undefined;
  /** The routing table that contains the route. */
  readonly table: number;
  /** The source address of packets whose sender did not choose any, if it is known. */
  readonly source: Ip | undefined;
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
   * @throws {NetlinkError} EEXIST if a route with the same destination and priority
   * exists, ENETUNREACH (IPv6: EHOSTUNREACH) if the gateway cannot be reached
   */
  add(route: Route): void {
    this.#new(route, Flag.Create | Flag.Exclusive);
  }

  /**
   * Adds a route next to existing routes with the same destination: for IPv4 before
   * them, so that it is used, and for IPv6 as a further next hop.
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
   * Adds a route, or replaces the route with the same destination and priority, even
   * if that route has a different outgoing link.
   *
   * @throws {NetlinkError} ENETUNREACH (IPv6: EHOSTUNREACH) if the gateway cannot
   *   be reached
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
    this.#socket.request(delRoute, delRouteBody(route));
  }

  /**
   * Adds a route with all its attributes, next to existing routes with the same
   * destination.
   *
   * @throws {NetlinkError} EEXIST if the same route exists, ENETUNREACH (IPv6:
   * EHOSTUNREACH) if its gateway cannot be reached
   */
  append(entry: RouteEntry): void {
    this.#socket.request(newRoute, {
      flags: Flag.Create | Flag.Append,
      ...entry.toRequest(),
    });
  }

  /**
   * Deletes a route with all its attributes. If an IPv6 route has several next
   * hops, deletes only the next hops of the entry.
   *
   * @throws {NetlinkError} ESRCH if it does not exist
   */
  delEntry(entry: RouteEntry): void {
    this.#socket.request(delRoute, entry.toRequest());
  }

  /**
   * Lists the routes of all tables and types.
   *
   * @param filter By default, both families and all links. Kernels before 4.20 ignore
   * it
   */
  listEntries(
    { family, ifindex }: Pick<RouteFilter, "family" | "ifindex"> = {},
  ): RouteEntry[] {
    const request = {
      header: {
        family: family === undefined ? AF_UNSPEC : addressFamily(family),
      },
      attributes: { oif: ifindex },
    };
    try {
      return this.#socket.dump(getRoute, request, newRoute)
        .filter(({ header: { flags } }) => !(flags & RTM_F_CLONED))
        .map(RouteEntry.from);
    } catch (error) {
      // The link does not exist.
      if (ifindex !== undefined && isErrno(error, "ENODEV")) return [];
      throw error;
    }
  }

  /**
   * Lists the unicast routes of a table, or of all tables. A route with several next
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

  /**
   * Looks up the path of a packet according to rules and routes.
   *
   * @throws {NetlinkError} ENETUNREACH, EHOSTUNREACH, EINVAL or EACCES if there
   * is no route, EXDEV if reverse path filtering drops it
   */
  lookUp({ destination, source, inputIndex }: Packet): Lookup {
    const header = {
      family: addressFamily(destination.family),
      destinationLength: destination.bitLength,
      sourceLength: source?.bitLength ?? 0,
      flags: tableFlag(destination),
    };
    const attributes = { destination, source, iif: inputIndex };
    const answer = this.#socket.get(getRoute, { header, attributes }, newRoute);
    const { oif, gateway, table = answer.header.table } = answer.attributes;
    const { preferredSource } = answer.attributes;
    return { ifindex: oif, gateway, table, source: preferredSource };
  }

  /**
   * Finds the route that packets to an address take.
   *
   * @returns Undefined without a route, or if the route refuses packets
   */
  findMatch(destination: Ip): RouteEntry | undefined {
    const header = {
      family: addressFamily(destination.family),
      destinationLength: destination.bitLength,
      flags: RTM_F_FIB_MATCH | tableFlag(destination),
    };
    try {
      return RouteEntry.from(
        this.#socket.get(
          getRoute,
          { header, attributes: { destination } },
          newRoute,
        ),
      );
    } catch (error) {
      if (isErrno(error, ...NO_ROUTE)) return undefined;
      throw error;
    }
  }

  /**
   * Returns the index of the link through which packets to an address leave;
   * undefined without a route to it.
   */
  findOutput(destination: Ip): number | undefined {
    try {
      return this.lookUp({ destination }).ifindex;
    } catch (error) {
      if (isErrno(error, ...NO_ROUTE)) return undefined;
      throw error;
    }
  }
}

/**
 * Has the kernel name the table of an IPv4 route; otherwise it always names the main
 * table. For IPv6 it always names the route's table, and refuses the flag.
 */
function tableFlag({ family }: Ip): number {
  return family === 4 ? RTM_F_LOOKUP_TABLE : 0;
}
