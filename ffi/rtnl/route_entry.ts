/**
 * Routes as the kernel reports them, for moving routes between tables. They keep all
 * attributes that their creator set, including unknown attributes.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { AF_INET } from "./constants.ts";
import {
  headerTable,
  newRouteBody,
  type Route,
  RTN_UNICAST,
  RTNH_F_ONLINK,
} from "./route_body.ts";
import { newRoute } from "./route_message.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTPROT_KERNEL = 2, RTPROT_RA = 9;
/** Types of routes, by their numbers. Source: include/uapi/linux/rtnetlink.h `RTN_*`. */
const TYPES: Readonly<Record<number, RouteType>> = {
  1: "unicast",
  2: "local",
  6: "blackhole",
  7: "unreachable",
  8: "prohibit",
  9: "throw",
};
/** Usage times, which cannot be set. */
const RTA_CACHEINFO = 12;

/** A route message. */
type RouteBody = ReturnType<typeof newRoute.decode>;

/**
 * The parts of a route message. Their types are not inferred, because every user of
 * the package would have to compute them.
 */
export interface RouteParts {
  /** The fixed part. */
  readonly header: object;
  /** The rest. */
  readonly attributes: object;
}

/** The creator of a route. */
export type RouteOrigin = "kernel" | "router" | "others";

/** What happens to packets. */
export type RouteType =
  | "unicast"
  | "local"
  | "blackhole"
  | "unreachable"
  | "prohibit"
  | "throw"
  | "other";

/** A next hop of a route. */
export interface NextHop {
  /** Index of the outgoing link. */
  readonly ifindex: number | undefined;
  /** The router; undefined if the destination is on the link. */
  readonly gateway: Ip | undefined;
}

/** A route of any table and type, with all its attributes. */
export class RouteEntry {
  readonly #body: RouteBody;

  private constructor(body: RouteBody) {
    this.#body = body;
  }

  /** Creates an entry that is not in the kernel yet. */
  static of(route: Route): RouteEntry {
    return new RouteEntry(
      newRoute.decode(newRoute.encode(newRouteBody(route))),
    );
  }

  /**
   * Wraps an answer of the kernel.
   *
   * @param answer A decoded `RTM_NEWROUTE`
   */
  static from(
    answer: RouteParts,
  ): RouteEntry {
    return new RouteEntry(answer as RouteBody);
  }

  /** The address family. */
  get family(): IpFamily {
    return this.#body.header.family === AF_INET ? 4 : 6;
  }

  /** The destination. */
  get destination(): Cidr {
    const { header, attributes } = this.#body;
    const ip = attributes.destination ?? Ip.fromValue(this.family, 0n);
    return Cidr.of(ip, header.destinationLength);
  }

  /** Whether it is a default route. */
  get isDefault(): boolean {
    return this.#body.header.destinationLength === 0;
  }

  /** The routing table. */
  get table(): number {
    return this.#body.attributes.table ?? this.#body.header.table;
  }

  /**
   * The priority. Of several routes to the same destination, the route with the
   * lowest priority wins; 0 is the lowest.
   */
  get priority(): number {
    return this.#body.attributes.priority ?? 0;
  }

  /** The scope: 0 (universe) to 255; 253 is the link. IPv6 has no scopes. */
  get scope(): number {
    return this.#body.header.scope;
  }

  /** Its type. */
  get type(): RouteType {
    return TYPES[this.#body.header.type] ?? "other";
  }

  /**
   * Whether it is a unicast route, in contrast to, for example, a local or
   * unreachable route.
   */
  get isUnicast(): boolean {
    return this.#body.header.type === RTN_UNICAST;
  }

  /** The creator. "router" means a router advertisement. */
  get origin(): RouteOrigin {
    const { protocol } = this.#body.header;
    if (protocol === RTPROT_KERNEL) return "kernel";
    return protocol === RTPROT_RA ? "router" : "others";
  }

  /** Source address of packets whose sender did not choose any. */
  get preferredSource(): Ip | undefined {
    return this.#body.attributes.preferredSource;
  }

  /** The next hops, usually a single one. */
  get nextHops(): NextHop[] {
    const { oif: ifindex, gateway, multipath } = this.#body.attributes;
    return multipath?.map(({ header, attributes }) => ({
      ifindex: header.ifindex,
      gateway: attributes.gateway,
    })) ?? [{ ifindex, gateway }];
  }

  /**
   * Its destination, priority and gateways as text, which is equal for routes that
   * differ only in their table, links or other attributes.
   */
  get way(): string {
    const gateways = this.nextHops.map(({ gateway }) => String(gateway));
    return [this.destination, this.priority, ...gateways].join();
  }

  /** Whether its router counts as on the link even without a route to it. */
  get isOnLink(): boolean {
    return (this.#body.header.flags & RTNH_F_ONLINK) !== 0;
  }

  /** Whether a next hop has a router. */
  get hasGateway(): boolean {
    return this.nextHops.some(({ gateway }) => gateway !== undefined);
  }

  /** Reports whether all next hops use the same link. */
  isOnlyOver(ifindex: number): boolean {
    return this.nextHops.every((hop) => hop.ifindex === ifindex);
  }

  /** Copies it with only the next hops over a link; undefined if there are none. */
  over(ifindex: number): RouteEntry | undefined {
    return this.#copyWith((hop) => hop === ifindex);
  }

  /**
   * Copies it with only the next hops over other links; undefined if there are none.
   */
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

  /**
   * Copies it with all next hops over another link, which can be in another
   * namespace.
   */
  onto(ifindex: number): RouteEntry {
    const { header, attributes } = this.#body;
    const { oif, multipath } = attributes;
    return new RouteEntry({
      header,
      attributes: {
        ...attributes,
        // The nexthop object is in the old namespace, and is deleted when its link
        // leaves it.
        nextHopId: undefined,
        oif: oif === undefined ? undefined : ifindex,
        multipath: multipath?.map((hop) => ({
          ...hop,
          header: { ...hop.header, ifindex },
        })),
      },
    });
  }

  /** Encodes it for a file. */
  toHex(): string {
    return newRoute.encode(this.#body).toHex();
  }

  /**
   * Decodes the text that {@linkcode toHex} returns.
   *
   * @throws {Error} If the text is not a route
   */
  static fromHex(hex: string): RouteEntry {
    return new RouteEntry(newRoute.decode(Uint8Array.fromHex(hex)));
  }

  /** Copies it into another table. */
  inTable(table: number): RouteEntry {
    const { header, attributes } = this.#body;
    return new RouteEntry({
      header: { ...header, table: headerTable(table) },
      attributes: { ...attributes, table },
    });
  }

  /**
   * Converts it to a request, without the parts that only answers can have.
   *
   * @internal
   */
  toRequest(): RouteParts {
    const { header, attributes } = this.#body;
    const { oif, gateway, multipath, unknown, ...shared } = attributes;
    // For a nexthop object the kernel reports the gateway and link, but refuses
    // them in requests.
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

/** Removes flags that report the link's state, which the kernel refuses in requests. */
function withoutState({ header, attributes }: NextHopBody): NextHopBody {
  const flags = header.flags & RTNH_F_ONLINK;
  return { header: { ...header, flags }, attributes };
}
