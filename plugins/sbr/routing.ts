/**
 * The sandbox's rules and routes, and which of them are an attachment's.
 *
 * Nothing is written down anywhere: the rule itself tells. It comes first on
 * ADD and goes last on DEL, so whatever was done in between, the rule by an
 * address of the interface leads to the table. So it is for attachments of the
 * Go plugin as well.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import type { IpConfig, Result, Route } from "../../cni/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  type RouteEntry,
  RouteEntryRequests,
} from "../../ffi/rtnl/route_entry.ts";
import { type Rule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";

/** Table main. Source: include/uapi/linux/rtnetlink.h `rt_class_t`. */
export const MAIN_TABLE = 254;
/** With it all tables of the kernel's: default and local. */
const KERNEL_TABLES: readonly number[] = [253, MAIN_TABLE, 255];
/** The first number of tables that this plugin makes. Source: the Go plugin's `firstTableID`. */
const FIRST_TABLE = 100;

/** What decides where packets of the sandbox go. */
export interface Routing {
  /** Of both families, each in the order in which they are asked. */
  readonly rules: readonly Rule[];
  /** Of both families and all tables. */
  readonly routes: readonly RouteEntry[];
}

/** Reads all rules and routes of the sandbox. */
export function readRouting({ socket }: Rtnl): Routing {
  return {
    rules: new RuleRequests(socket).list(),
    routes: new RouteEntryRequests(socket).list(),
  };
}

/**
 * Lists the addresses of the call's interface, each once: those that name it,
 * those that name none, and those that name one which the result does not list.
 * Link-local addresses of IPv6 are left out: what is sent from them stays on
 * its link anyhow.
 */
export function sourcesOf(
  { ips, interfaces }: Result,
  { ifName }: CmdArgs,
): IpConfig[] {
  return ips.filter(({ interface: index, address }, position) => {
    const named = index === undefined ? undefined : interfaces[index];
    return (named === undefined || named.name === ifName) &&
      !staysOnLink(address) &&
      ips.findIndex((other) => other.address.ip.equals(address.ip)) ===
        position;
  });
}

/** Says whether a destination of IPv6 means another thing on each link. */
export function staysOnLink({ family, ip }: Cidr): boolean {
  return family === 6 && (ip.isLinkLocal || ip.isMulticast);
}

/** Returns an address's router; one of the other family is another kind of next hop. */
export function routerOf({ address, gateway }: IpConfig): Ip | undefined {
  return gateway?.family === address.family ? gateway : undefined;
}

/** Whose rules are looked for. */
export interface Owner {
  /** The interface's addresses. */
  readonly sources: readonly Ip[];
  /** The interface; undefined if it is gone. */
  readonly ifindex: number | undefined;
  /** The table of the configuration; undefined if the plugin chooses one. */
  readonly table: number | undefined;
}

/**
 * Lists the rules that an attachment has: by one of its addresses alone, to the
 * table of its configuration, or else to one that no other interface uses.
 */
export function ownRules(
  { rules, routes }: Routing,
  { sources, ifindex, table }: Owner,
): Rule[] {
  const isOwnTable = (candidate: number): boolean =>
    table === undefined
      ? candidate >= FIRST_TABLE && !KERNEL_TABLES.includes(candidate) &&
        !routes.some((route) =>
          route.table === candidate && leadsElsewhere(route, ifindex)
        )
      : candidate === table;
  return rules.filter((rule) =>
    rule.isBySource && isOwnTable(rule.table) &&
    sources.some((ip) => rule.source.equals(Cidr.host(ip)))
  );
}

/** Refusals lead nowhere, so they are as good as the interface's. */
function leadsElsewhere(
  route: RouteEntry,
  ifindex: number | undefined,
): boolean {
  return route.isUnicast &&
    (ifindex === undefined || !route.isOnlyOver(ifindex));
}

/**
 * Finds the first tables from 100 on that neither a rule nor a route uses.
 *
 * @returns Ever larger numbers
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
    (route.table || MAIN_TABLE) === table
  ) ?? [];
}

/**
 * Lists the default routes of a result that were added to table main, those
 * without a gateway with the one that interface plugins take then: the first of
 * the family's addresses.
 */
export function listedDefaults(result: Result | undefined): Route[] {
  return listedRoutes(result, MAIN_TABLE)
    .filter(({ dst }) => dst.prefixLength === 0)
    .map((route) => ({
      ...route,
      gw: route.gw ??
        result?.ips.find(({ gateway }) => gateway?.family === route.dst.family)
          ?.gateway,
    }));
}
