/**
 * Routes as the kernel keeps them, for those that are to be moved from one
 * table to another: with everything that whoever made them has said, also what
 * nothing here has a name for.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { AF_INET, AF_INET6, AF_UNSPEC } from "./constants.ts";
import { headerTable, newRouteBody, type Route } from "./route.ts";
import { delRoute, getRoute, newRoute } from "./route_message.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTN_UNICAST = 1, RTPROT_KERNEL = 2, RTPROT_RA = 9;
const RTNH_F_ONLINK = 4, RTM_F_CLONED = 0x200;
/** Times of use, which nobody can set. */
const RTA_CACHEINFO = 12;

/** The kernel's words for a route. */
type RouteBody = ReturnType<typeof newRoute.decode>;

/** Who made a route. */
export type RouteOrigin = "kernel" | "router" | "others";

/** Where a route leads. */
export interface NextHop {
  /** Index of the link that it is on. */
  readonly ifindex: number | undefined;
  /** The router there; undefined if the destination itself is on the link. */
  readonly gateway: Ip | undefined;
}

/** A route of any table and type, with all its attributes. */
export class RouteEntry {
  readonly #body: RouteBody;

  private constructor(body: RouteBody) {
    this.#body = body;
  }

  /** Makes one that is not in the kernel yet. */
  static of(route: Route): RouteEntry {
    return new RouteEntry(
      newRoute.decode(newRoute.encode(newRouteBody(route))),
    );
  }

  /** Wraps what the kernel answered. */
  static from(answer: RouteBody): RouteEntry {
    return new RouteEntry(answer);
  }

  /** Of which addresses it is. */
  get family(): IpFamily {
    return this.#body.header.family === AF_INET ? 4 : 6;
  }

  /** The addresses that it is for. */
  get destination(): Cidr {
    const { header, attributes } = this.#body;
    const ip = attributes.destination ?? Ip.fromValue(this.family, 0n);
    return Cidr.of(ip, header.destinationLength);
  }

  /** Whether it is for all that no other route is for. */
  get isDefault(): boolean {
    return this.#body.header.destinationLength === 0;
  }

  /** The routing table that it is in. */
  get table(): number {
    return this.#body.attributes.table ?? this.#body.header.table;
  }

  /** Of routes to one destination that with the lowest counts; 0 is the lowest. */
  get priority(): number {
    return this.#body.attributes.priority ?? 0;
  }

  /** Whether it leads somewhere, and is not for the host itself or a refusal. */
  get isUnicast(): boolean {
    return this.#body.header.type === RTN_UNICAST;
  }

  /** By whom it was made: "router" is one that advertised itself. */
  get origin(): RouteOrigin {
    const { protocol } = this.#body.header;
    if (protocol === RTPROT_KERNEL) return "kernel";
    return protocol === RTPROT_RA ? "router" : "others";
  }

  /** Address to send from where the sender has chosen none. */
  get preferredSource(): Ip | undefined {
    return this.#body.attributes.preferredSource;
  }

  /** Where it leads: mostly one place. */
  get nextHops(): NextHop[] {
    const { oif: ifindex, gateway, multipath } = this.#body.attributes;
    return multipath?.map(({ header, attributes }) => ({
      ifindex: header.ifindex,
      gateway: attributes.gateway,
    })) ?? [{ ifindex, gateway }];
  }

  /** Whether its router is on the link although no route to it says so. */
  get isOnLink(): boolean {
    return (this.#body.header.flags & RTNH_F_ONLINK) !== 0;
  }

  /** Whether it leads to a router. */
  get hasGateway(): boolean {
    return this.nextHops.some(({ gateway }) => gateway !== undefined);
  }

  /** Says whether all its ways lead out by one link. */
  isOnlyOver(ifindex: number): boolean {
    return this.nextHops.every((hop) => hop.ifindex === ifindex);
  }

  /** Copies it with those ways only that lead out by a link; undefined if none does. */
  over(ifindex: number): RouteEntry | undefined {
    return this.#copyWith((hop) => hop === ifindex);
  }

  /** Copies it with those ways only that lead out by other links; undefined if none does. */
  besides(ifindex: number): RouteEntry | undefined {
    return this.#copyWith((hop) => hop !== ifindex);
  }

  #copyWith(
    isWanted: (ifindex: number | undefined) => boolean,
  ): RouteEntry | undefined {
    if (this.nextHops.every((hop) => isWanted(hop.ifindex))) return this;
    const { header, attributes } = this.#body;
    const multipath = attributes.multipath
      ?.filter((hop) => isWanted(hop.header.ifindex)) ?? [];
    if (multipath.length === 0) return undefined;
    const parts = { ...attributes, multipath, nextHopId: undefined };
    return new RouteEntry({ header, attributes: parts });
  }

  /** Copies it as one of another table. */
  inTable(table: number): RouteEntry {
    const { header, attributes } = this.#body;
    return new RouteEntry({
      header: { ...header, table: headerTable(table) },
      attributes: { ...attributes, table },
    });
  }

  /** Says it in the words of a request: without what only answers may say. */
  toRequest(): RouteBody {
    const { header, attributes } = this.#body;
    const { oif, gateway, multipath, unknown, ...shared } = attributes;
    // The kernel tells where a next hop of its own table leads, but is not to
    // be told.
    const way = attributes.nextHopId === undefined
      ? { oif, gateway, multipath: multipath?.map(withoutState) }
      : {};
    return {
      header: { ...header, flags: header.flags & RTNH_F_ONLINK },
      attributes: {
        ...shared,
        ...way,
        unknown: unknown?.filter(({ type }) => type !== RTA_CACHEINFO) ?? [],
      },
    };
  }
}

type NextHopBody = NonNullable<RouteBody["attributes"]["multipath"]>[number];

/** Flags that say how a link is doing are refused in requests. */
function withoutState({ header, attributes }: NextHopBody): NextHopBody {
  const flags = header.flags & RTNH_F_ONLINK;
  return { header: { ...header, flags }, attributes };
}

/** Routes of all tables of the namespace in which the socket was opened. */
export class RouteEntryRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Speaks through an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /** Lists the routes of both families, of all tables and types. */
  list(): RouteEntry[] {
    const request = { header: { family: AF_UNSPEC } };
    return this.#socket.dump(getRoute, request, newRoute)
      .filter(({ header: { family, flags } }) =>
        (family === AF_INET || family === AF_INET6) && !(flags & RTM_F_CLONED)
      ).map(RouteEntry.from);
  }

  /**
   * Adds a route, beside others to the same destination.
   *
   * @throws {NetlinkError} EEXIST if the very same is there, ENETUNREACH
   * (IPv6: EHOSTUNREACH) if its gateway cannot be reached
   */
  append(entry: RouteEntry): void {
    this.#socket.request(newRoute, {
      flags: Flag.Create | Flag.Append,
      ...entry.toRequest(),
    });
  }

  /**
   * Deletes a route. Of an IPv6 route with several ways those are deleted that
   * the entry has.
   *
   * @throws {NetlinkError} ESRCH if it is not there
   */
  del(entry: RouteEntry): void {
    this.#socket.request(delRoute, entry.toRequest());
  }
}
