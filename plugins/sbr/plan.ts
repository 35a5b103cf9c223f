/**
 * Plans the changes of ADD from the existing state, before any change. Takes the
 * remains of an earlier ADD into account.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result/result.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { NewRule } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import { freeTables, ownRules, type Routing, staysOnLink } from "./routing.ts";
import { type Hint, keepSubnets } from "./source_hints.ts";
import { isFor, planTable, type RoutingRequest } from "./table.ts";

/** The changes, in order. */
export interface Plan {
  /** Rules to add. */
  readonly rules: readonly NewRule[];
  /** Routes to add to the rules' tables. */
  readonly copies: readonly RouteEntry[];
  /** Routes to add to table main. */
  readonly hints: readonly Hint[];
  /** Routes to delete. */
  readonly removals: readonly RouteEntry[];
}

/** Plans rules that direct packets from addresses to a foreign table. */
export function planRules(
  routing: Routing,
  ips: readonly IpConfig[],
  table: number,
): Plan {
  const sources = ips.map(({ address }) => address.ip);
  const present = ownRules(routing, { sources, ifindex: undefined, table });
  const rules = sources.map((ip) => ruleFor(ip, table))
    .filter(({ source }) =>
      !present.some((rule) => rule.source.equals(source))
    );
  return { rules, copies: [], hints: [], removals: [] };
}

/** Returns the rule that directs packets from an address to its table. */
export function ruleFor(ip: Ip, table: number): NewRule {
  return { source: Cidr.host(ip), table };
}

/** Plans a table for each address, and moves the interface's routes there. */
export function planMove(routing: Routing, request: RoutingRequest): Plan {
  const { ifindex, ips } = request;
  const found = routing.routes.filter((route) => isMovable(route, request));
  const moving = found.flatMap((route) => route.over(ifindex) ?? []);
  const emptied = found.filter((route) => isRemovable(route, ifindex))
    .flatMap((route) => route.over(ifindex) ?? []);
  const assignments = assignTables(routing, request);
  const tables = assignments.map(({ ip, table }) =>
    planTable({ ip, table, request, routing, moving })
  );
  const { hints, removals } = request.addSourceHints
    ? keepSubnets(emptied, ips, ifindex)
    : { hints: [], removals: emptied };
  return {
    rules: assignments.filter(({ isNew }) => isNew)
      .map(({ ip, table }) => ruleFor(ip.address.ip, table)),
    copies: nearestFirst(tables.flatMap(({ routes }) => routes)),
    hints,
    removals: [
      ...tables.flatMap(({ stale }) => stale),
      ...nearestFirst(removals).reverse(),
    ],
  };
}

/** Sorts routes: routes to gateways come before routes through them. */
export function nearestFirst(routes: readonly RouteEntry[]): RouteEntry[] {
  return routes.toSorted((one, other) =>
    Number(one.hasGateway) - Number(other.hasGateway)
  );
}

/** An address and its table. */
interface Assignment {
  readonly ip: IpConfig;
  readonly table: number;
  /** Whether the table's rule does not exist yet. */
  readonly isNew: boolean;
}

function assignTables(
  routing: Routing,
  { ips, ifindex, listed }: RoutingRequest,
): Assignment[] {
  const free = freeTables(routing);
  return ips.map((ip) => {
    const sources = [ip.address.ip];
    const own = { sources, ifindex, table: undefined, listed };
    const [rule] = ownRules(routing, own);
    return rule === undefined
      ? { ip, table: free.next().value, isNew: true }
      : { ip, table: rule.table, isNew: false };
  });
}

/**
 * Reports whether a route in table main is moved. A route learned from a router
 * stays, because the kernel would learn it again; so does a route of an address that
 * the result does not list.
 */
function isMovable(
  route: RouteEntry,
  { ips, ifindex }: RoutingRequest,
): boolean {
  return route.table === Table.Main && route.isUnicast &&
    route.origin !== "router" && route.over(ifindex) !== undefined &&
    !staysOnLink(route.destination) &&
    ips.some(({ address }) => address.family === route.family) &&
    (route.preferredSource === undefined ||
      ips.some((ip) => isFor(route, ip)));
}

/**
 * Reports whether the kernel can delete only a route's next hops over a link.
 */
function isRemovable(route: RouteEntry, ifindex: number): boolean {
  return route.family === 6 || route.isOnlyOver(ifindex);
}
