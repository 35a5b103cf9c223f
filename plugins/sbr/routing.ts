/**
 * The sandbox's rules and routes, and which of them belong to an attachment.
 *
 * No records are needed, because the rule itself identifies the table. ADD adds it
 * first and DEL deletes it last, so at any time in between, the rule of an
 * interface's address leads to its table. This also holds for attachments of the Go
 * plugin.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import type { IpConfig, Result, Route } from "../../cni/result/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { type RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type Rule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";

/** The kernel's own tables. */
const KERNEL_TABLES: readonly number[] = [
  Table.Default,
  Table.Main,
  Table.Local,
];
/**
 * First number of the plugin's tables. Source: the Go plugin's `firstTableID`.
 * `firstTableID`.
 */
const FIRST_TABLE = 100;

/** Rules and routes of the sandbox. */
export interface Routing {
  /** The rules of both families, each in order of evaluation. */
  readonly rules: readonly Rule[];
  /** The routes of both families and all tables. */
  readonly routes: readonly RouteEntry[];
}

/** Reads all rules and routes of the sandbox. */
export function readRouting({ socket, route }: Rtnl): Routing {
  return {
    rules: new RuleRequests(socket).list(),
    routes: route.listEntries(),
  };
}

/**
 * Lists the addresses of the call's interface without duplicates: addresses with this
 * interface, without an interface, or with an interface that the result does not
 * list. Omits IPv6 link-local addresses, whose packets stay on their link anyway.
 */
export function sourcesOf(
  { ips, interfaces }: Result,
  { ifName }: CmdArgs,
): IpConfig[] {
  const known = new Set<string>();
  return ips.filter(({ interface: index, address }) => {
    const named = index === undefined ? undefined : interfaces[index];
    const text = String(address.ip), isFirst = !known.has(text);
    known.add(text);
    return isFirst && (named === undefined || named.name === ifName) &&
      !staysOnLink(address);
  });
}

/** Reports whether an IPv6 destination has a different meaning on each link. */
export function staysOnLink({ family, ip }: Cidr): boolean {
  return family === 6 && (ip.isLinkLocal || ip.isMulticast);
}

/**
 * Returns an address's router; a gateway of the other family is a different kind of
 * next hop.
 */
export function routerOf({ address, gateway }: IpConfig): Ip | undefined {
  return gateway?.family === address.family ? gateway : undefined;
}

/** Selects the rules of an attachment. */
export interface RuleSelector {
  /** The interface's addresses. */
  readonly sources: readonly Ip[];
  /** The interface; undefined if it was deleted. */
  readonly ifindex: number | undefined;
  /** The configured table; undefined if the plugin chooses the table. */
  readonly table: number | undefined;
  /** See {@linkcode listedTables}. */
  readonly listed?: readonly number[];
}

/**
 * Lists an attachment's rules: rules for exactly one of its addresses, to the
 * configured table or, without a configured table, to a table that no other interface
 * uses. A table that a different plugin fills is used only if the address has no
 * other table.
 */
export function ownRules(
  { rules, routes }: Routing,
  { sources, ifindex, table, listed = [] }: RuleSelector,
): Rule[] {
  const others = tablesOfOthers(routes, ifindex);
  const isOwnTable = (candidate: number): boolean =>
    table === undefined
      ? candidate >= FIRST_TABLE && !KERNEL_TABLES.includes(candidate) &&
        !others.has(candidate)
      : candidate === table;
  const hosts = new Set(sources.map((ip) => String(Cidr.host(ip))));
  const found = rules.filter((rule) =>
    rule.isBySource && isOwnTable(rule.table) && hosts.has(String(rule.source))
  );
  const filled = new Set(listed);
  const chosen = new Set(found.filter((rule) => !filled.has(rule.table)));
  const ofChosen = new Set([...chosen].map(({ source }) => String(source)));
  return found.filter((rule) =>
    chosen.has(rule) || table !== undefined ||
    !ofChosen.has(String(rule.source))
  );
}

/** Lists the tables that a different plugin fills, from the routes in the result. */
export function listedTables(result: Result | undefined): number[] {
  return result?.routes.flatMap(({ table }) => table || []) ?? [];
}

/**
 * Lists the tables that only this interface uses, that no other plugin fills, and to
 * which no rule leads.
 */
export function tablesWithoutRule(
  { rules, routes }: Routing,
  { ifindex, listed }: {
    readonly ifindex: number;
    readonly listed: readonly number[];
  },
): number[] {
  const tables = new Set(routes.map(({ table }) => table));
  const taken = new Set([...listed, ...rules.map(({ table }) => table)])
    .union(tablesOfOthers(routes, ifindex));
  return [...tables].filter((table) =>
    table >= FIRST_TABLE && !KERNEL_TABLES.includes(table) && !taken.has(table)
  ).sort((one, other) => one - other);
}

/** Returns the tables with a route that uses a different interface. */
function tablesOfOthers(
  routes: readonly RouteEntry[],
  ifindex: number | undefined,
): Set<number> {
  return new Set(
    routes.filter((route) => leadsElsewhere(route, ifindex))
      .map(({ table }) => table),
  );
}

/**
 * Reports whether a route uses a different interface; unreachable and similar routes
 * use none.
 */
function leadsElsewhere(
  route: RouteEntry,
  ifindex: number | undefined,
): boolean {
  return route.isUnicast &&
    (ifindex === undefined || !route.isOnlyOver(ifindex));
}

/**
 * Finds the tables from 100 on that no rule or route uses.
 *
 * @returns Ascending numbers
 */
export function* freeTables(
  { rules, routes }: Routing,
): Generator<number, never> {
  const tables = [...rules, ...routes].map(({ table }) => table);
  const used = new Set([...KERNEL_TABLES, ...tables]);
  for (let table = FIRST_TABLE;; table++) {
    if (!used.has(table)) yield table;
  }
}

/** Lists the routes of a result that were added to a table; 0 is main. */
export function listedRoutes(
  result: Result | undefined,
  table: number,
): Route[] {
  return result?.routes.filter((route) =>
    (route.table || Table.Main) === table
  ) ?? [];
}

/**
 * Lists the default routes of a result that were added to table main. A route without
 * a gateway gets the gateway that interface plugins then use: the first gateway of
 * the family.
 */
export function listedDefaults(result: Result | undefined): Route[] {
  return listedRoutes(result, Table.Main)
    .filter(({ dst }) => dst.prefixLength === 0)
    .map((route) => ({
      ...route,
      gw: route.gw ??
        result?.ips.find(({ gateway }) => gateway?.family === route.dst.family)
          ?.gateway,
    }));
}
