/**
 * What the table of one address holds.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import type { Gateways } from "./config.ts";
import { MAIN_TABLE, routerOf, type Routing } from "./routing.ts";
import { isHint } from "./source_hints.ts";

/** What is wanted of an interface. */
export interface Wish {
  /** The addresses whose packets leave by it. */
  readonly ips: readonly IpConfig[];
  readonly ifindex: number;
  /** Routers that go before the addresses' own. */
  readonly gateways: Gateways;
  /** Whether the addresses' subnets stay in table main. */
  readonly addSourceHints: boolean;
}

/** What a table is planned from. */
export interface TableInput {
  readonly ip: IpConfig;
  readonly table: number;
  readonly wish: Wish;
  /** What is there. */
  readonly routing: Routing;
  /** The routes of table main that move, with their ways over the interface. */
  readonly moving: readonly RouteEntry[];
}

/** What is to become of a table. */
export interface TablePlan {
  /** Routes to add. */
  readonly routes: readonly RouteEntry[];
  /** Routes to delete. */
  readonly stale: readonly RouteEntry[];
}

/** Plans which routes a table gets, and which of those that it has are to go. */
export function planTable(input: TableInput): TablePlan {
  const { ip, table, wish, moving } = input;
  const present = input.routing.routes.filter((route) =>
    route.table === table && route.family === ip.address.family
  );
  const copies = moving.filter((route) =>
    isFor(route, ip) || isForNoneInParticular(route, ip, wish.ips)
  );
  const { routes: defaults, stale } = planDefault(input, {
    copied: copies.filter(({ isDefault }) => isDefault),
    present: present.filter(({ isDefault }) => isDefault),
  });
  const others = copies.filter((route) =>
    !route.isDefault &&
    // The hint of an ADD before this one, which has copied what it stands for.
    !(wish.addSourceHints && isHint(route, ip.address) &&
      present.some((other) => other.destination.equals(route.destination)))
  );
  const routes = [...others, ...defaults].map((route) => route.inTable(table));
  return { routes, stale };
}

/**
 * Says whether a route is for packets from an address: by the address that it
 * has them sent from, or by its gateways. One that has neither is for all.
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
 * Says whether a route must be for an address since it is for no other: through
 * a link-local gateway, for one. A default route is not: the address's gateway
 * goes before it.
 */
function isForNoneInParticular(
  route: RouteEntry,
  { address }: IpConfig,
  ips: readonly IpConfig[],
): boolean {
  return route.family === address.family && !route.isDefault &&
    !ips.some((other) => isFor(route, other));
}

/** Default routes for one address. */
interface Defaults {
  /** Of the interface, and to be copied. */
  readonly copied: readonly RouteEntry[];
  /** In the table already. */
  readonly present: readonly RouteEntry[];
}

/**
 * Plans the default route: through the configuration's gateway alone, else
 * through the address's unless the interface has one as good, else whichever
 * the interface has.
 */
function planDefault(
  { ip, routing, wish }: TableInput,
  { copied, present }: Defaults,
): TablePlan {
  const { family } = ip.address;
  const { ifindex, gateways: { [family]: configured } } = wish;
  const ofMain = defaultsOfMain(routing, family, ifindex);
  if (configured !== undefined) {
    const isWanted = (route: RouteEntry): boolean => leadsTo(route, configured);
    return {
      routes: present.some(isWanted)
        ? []
        : [defaultRoute(configured, wish, { ofMain, copied })],
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
    : [defaultRoute(gateway, wish, { ofMain, copied: [] })];
  return { routes: [...copied, ...made], stale: [] };
}

function leadsTo({ nextHops }: RouteEntry, router: Ip): boolean {
  return nextHops.every(({ gateway }) => gateway?.equals(router));
}

/**
 * Makes a default route, to a router on the link if another one says that it
 * is. The route that it replaces leaves its metric, by which DEL restores it.
 */
function defaultRoute(
  gateway: Ip,
  { ifindex }: Wish,
  { ofMain, copied }: Record<"ofMain" | "copied", readonly RouteEntry[]>,
): RouteEntry {
  return RouteEntry.of({
    destination: Cidr.parse(ANYWHERE[gateway.family]),
    gateway,
    ifindex,
    isOnLink: ofMain.some((route) => route.isOnLink && leadsTo(route, gateway)),
    priority: copied[0]?.priority || undefined,
  });
}

/** The metric that the kernel gives a route that comes without. */
export const USUAL_PRIORITY: Readonly<Record<IpFamily, number>> = {
  4: 0,
  6: 1024,
};

/** Lists what leads everywhere over a link, be it learnt from a router. */
function defaultsOfMain(
  { routes }: Routing,
  family: IpFamily,
  ifindex: number,
): RouteEntry[] {
  return routes.filter((route) =>
    route.table === MAIN_TABLE && route.family === family &&
    route.isDefault && route.isUnicast
  ).flatMap((route) => route.over(ifindex) ?? []);
}

const ANYWHERE: Readonly<Record<IpFamily, string>> = {
  4: "0.0.0.0/0",
  6: "::/0",
};
