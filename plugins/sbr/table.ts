/**
 * Plans the table of an address.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result/result.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { isOutside } from "../parts/link/configure_link.ts";
import type { Gateways } from "./schema.ts";
import { routerOf, type Routing } from "./routing.ts";
import { isHint } from "./source_hints.ts";

/** The requested routing of an interface. */
export interface RoutingRequest {
  /** Addresses whose packets leave through the interface. */
  readonly ips: readonly IpConfig[];
  readonly ifindex: number;
  /** Routers that take precedence over the addresses' own routers. */
  readonly gateways: Gateways;
  /** Whether the addresses' subnets stay in table main. */
  readonly addSourceHints: boolean;
  /** Tables that a different plugin fills. */
  readonly listed: readonly number[];
}

/** Input of a table's plan. */
export interface TableInput {
  readonly ip: IpConfig;
  readonly table: number;
  readonly request: RoutingRequest;
  /** The existing rules and routes. */
  readonly routing: Routing;
  /**
   * Routes in table main that are moved, with only their next hops over the
   * interface.
   */
  readonly moving: readonly RouteEntry[];
}

/** Changes of a table. */
export interface TablePlan {
  /** Routes to add. */
  readonly routes: readonly RouteEntry[];
  /** Routes to delete. */
  readonly stale: readonly RouteEntry[];
}

/** Plans which routes to add to a table, and which routes to delete from it. */
export function planTable(input: TableInput): TablePlan {
  const { ip, table, request, moving } = input;
  const present = input.routing.routes.filter((route) =>
    route.table === table && route.family === ip.address.family
  );
  const copies = moving.filter((route) =>
    isFor(route, ip) || isForNoneInParticular(route, ip, request.ips)
  );
  const { routes: defaults, stale } = planDefault(input, {
    copied: copies.filter(({ isDefault }) => isDefault),
    present: present.filter(({ isDefault }) => isDefault),
  });
  const others = copies.filter((route) =>
    !route.isDefault &&
    // A hint of an earlier ADD, which has already copied the original route.
    !(request.addSourceHints && isHint(route, ip.address) &&
      present.some((other) => other.destination.equals(route.destination)))
  );
  const routes = [...others, ...defaults].map((route) => route.inTable(table));
  return { routes, stale };
}

/**
 * Reports whether a route is for packets from an address, judging by its source
 * address or its gateways. A route without either is for all packets.
 *
 * Source: containernetworking/plugins plugins/meta/sbr/main.go `doRoutes`.
 */
export function isFor(
  route: RouteEntry,
  { address, gateway }: IpConfig,
): boolean {
  const signs = route.nextHops.flatMap((hop) => hop.gateway ?? []);
  if (route.preferredSource !== undefined) signs.push(route.preferredSource);
  return route.family === address.family &&
    (signs.length === 0 ||
      signs.some((ip) => address.contains(ip) || gateway?.equals(ip)));
}

/**
 * Reports whether a route is for no listed address in particular, for example through
 * a link-local gateway. Such a route is added to all tables, except a default route,
 * because the address's gateway takes precedence.
 */
function isForNoneInParticular(
  route: RouteEntry,
  { address }: IpConfig,
  ips: readonly IpConfig[],
): boolean {
  return route.family === address.family && !route.isDefault &&
    !ips.some((other) => isFor(route, other));
}

/** Default routes for an address. */
interface Defaults {
  /** Default routes of the interface to copy. */
  readonly copied: readonly RouteEntry[];
  /** Default routes already in the table. */
  readonly present: readonly RouteEntry[];
}

/**
 * Plans the default route: only through the configuration's gateway, if any;
 * otherwise through the address's gateway, unless the interface has an equivalent
 * route; otherwise the interface's routes.
 */
function planDefault(
  { ip, routing, request }: TableInput,
  { copied, present }: Defaults,
): TablePlan {
  const { family } = ip.address;
  const { ifindex, gateways: { [family]: configured } } = request;
  const ofMain = defaultsOfMain(routing, family, ifindex);
  if (configured !== undefined) {
    const isWanted = (route: RouteEntry): boolean => leadsTo(route, configured);
    return {
      routes: present.some(isWanted)
        ? []
        : [defaultRoute(configured, request, { ofMain, copied })],
      stale: present.filter((route) => !isWanted(route)),
    };
  }
  const own = [...copied, ...present];
  const gateway = routerOf(ip);
  if (own.length === 0 && gateway === undefined) {
    return { routes: ofMain, stale: [] };
  }
  const isOneAsGood = own.some(({ priority }) =>
    priority === USUAL_PRIORITY[family]
  );
  const made = gateway === undefined || isOneAsGood
    ? []
    : [defaultRoute(gateway, request, { ofMain, copied: [] })];
  return { routes: [...copied, ...made], stale: [] };
}

function leadsTo({ nextHops }: RouteEntry, router: Ip): boolean {
  return nextHops.every(({ gateway }) => gateway?.equals(router));
}

/**
 * Creates a default route; marks the router as on the link if an existing route does,
 * or if it is an address's gateway outside the subnets. The route keeps the metric of
 * the route that it replaces, from which DEL restores it.
 */
function defaultRoute(
  gateway: Ip,
  { ifindex, ips }: RoutingRequest,
  { ofMain, copied }: Record<"ofMain" | "copied", readonly RouteEntry[]>,
): RouteEntry {
  return RouteEntry.of({
    destination: Cidr.parse(ANYWHERE[gateway.family]),
    gateway,
    ifindex,
    isOnLink: ips.some((ip) => ip.gateway?.equals(gateway)) &&
        isOutside(gateway, ips) ||
      ofMain.some((route) => route.isOnLink && leadsTo(route, gateway)),
    priority: copied[0]?.priority || undefined,
  });
}

/** The kernel's default metric of a route. */
export const USUAL_PRIORITY: Readonly<Record<IpFamily, number>> = {
  4: 0,
  6: 1024,
};

/**
 * Lists the default routes over a link, including those learned from a router.
 */
function defaultsOfMain(
  { routes }: Routing,
  family: IpFamily,
  ifindex: number,
): RouteEntry[] {
  return routes.filter((route) =>
    route.table === Table.Main && route.family === family &&
    route.isDefault && route.isUnicast
  ).flatMap((route) => route.over(ifindex) ?? []);
}

const ANYWHERE: Readonly<Record<IpFamily, string>> = {
  4: "0.0.0.0/0",
  6: "::/0",
};
