/**
 * CHECK: verifies that packets from the addresses still leave through the interface.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import { Differences } from "../../cni/call/differences.ts";
import type { IpConfig, Result, Route } from "../../cni/result/result.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Rule } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import {
  checkFailure,
  compareLink,
  throwDifferences,
} from "../parts/link/check_link.ts";
import type { SbrConfig } from "./schema.ts";
import {
  listedDefaults,
  listedRoutes,
  listedTables,
  ownRules,
  readRouting,
  routerOf,
  type Routing,
  type RuleSelector,
  staysOnLink,
} from "./routing.ts";
import { hintedAddresses } from "./source_hints.ts";

/** Input of ADD. */
interface Given {
  readonly prevResult: Result;
  /** The interface's addresses. */
  readonly ips: readonly IpConfig[];
  readonly config: SbrConfig;
}

/**
 * Checks the rules of the addresses and their tables.
 *
 * @throws {CniError} 999 if something differs from ADD's state
 */
export async function checkSources(
  sandbox: Rtnl,
  { ifName }: CmdArgs,
  given: Given,
): Promise<void> {
  const differences = new Differences();
  const name = { name: ifName };
  const { index: ifindex } = compareLink(differences, sandbox, name, {
    mayBeDown: true,
  });
  const routing = readRouting(sandbox);
  const routes = Map.groupBy(
    routing.routes.flatMap((route) => route.over(ifindex) ?? []),
    ({ table }) => table,
  );
  const ofTable = (table: number): RouteEntry[] => routes.get(table) ?? [];
  const { table, addSourceHints } = given.config;
  const listed = listedTables(given.prevResult);
  const sources = given.ips.map(({ address }) => address.ip);
  const owner = { sources, ifindex, table, listed };
  const ruleOf = ruleFinder(differences, routing, owner);
  const tables: { ip: IpConfig; routes: RouteEntry[] }[] = [];
  for (const ip of given.ips) {
    const rule = await differences.collect(() => ruleOf(ip.address.ip));
    if (rule !== undefined) tables.push({ ip, routes: ofTable(rule.table) });
  }
  // The routes can be in any of the tables.
  if (tables.length === given.ips.length) {
    const routes = tables.flatMap((own) => own.routes);
    await differences.collect(() => checkListedRoutes(routes, given));
  }
  if (table === undefined) {
    const defaults = new Set(
      listedDefaults(given.prevResult).map(({ dst }) => dst.family),
    );
    for (const own of tables) {
      await differences
        .collect(() => checkTable(own.routes, own.ip, given, defaults));
    }
    if (addSourceHints) {
      await differences.collect(() => checkHints(ofTable(Table.Main), given));
    }
  }
  differences.throwAny();
}

/** Finds the rule of an address, and checks that it precedes table main. */
function ruleFinder(
  differences: Differences,
  routing: Routing,
  owner: RuleSelector,
): (source: Ip) => Rule {
  const own = Map.groupBy(
    ownRules(routing, owner),
    ({ source }) => String(source),
  );
  const positions = new Map(
    routing.rules.map((rule, position) => [rule, position]),
  );
  const mainAt = (family: IpFamily): number =>
    routing.rules.findIndex((other) =>
      other.table === Table.Main && other.isBySource &&
      other.source.prefixLength === 0 && other.source.family === family
    );
  const mainOf = { 4: mainAt(4), 6: mainAt(6) };
  return (source) => {
    const [rule] = own.get(String(Cidr.host(source))) ?? [];
    if (rule === undefined) {
      const table = owner.table === undefined ? "" : ` to table ${owner.table}`;
      throw checkFailure(
        `The rule for packets from ${source}${table} is missing`,
      );
    }
    const main = mainOf[rule.source.family];
    if (main >= 0 && main < (positions.get(rule) ?? 0)) {
      differences.add({
        msg: `Table main comes before the rule for packets from ${source}`,
      });
    }
    return rule;
  };
}

/** Checks that the routes of the result are where ADD has moved them. */
function checkListedRoutes(
  present: readonly RouteEntry[],
  { prevResult, ips, config: { table = Table.Main } }: Given,
): void {
  const own = new Set(ips);
  const others = prevResult.ips.filter((ip) => !own.has(ip));
  const isInvolved = ({ dst, gw }: Route): boolean =>
    ips.some(({ address }) => address.family === dst.family) &&
    !staysOnLink(dst) &&
    !others.some(({ address }) => gw !== undefined && address.contains(gw)) &&
    // The default route of a table is checked separately.
    (table !== Table.Main || dst.prefixLength > 0);
  const byDestination = Map.groupBy(
    present,
    ({ destination }) => String(destination),
  );
  const missing = listedRoutes(prevResult, table).filter(({ dst, gw }) => {
    const alike = byDestination.get(String(dst.masked())) ?? [];
    const isPresent = alike.some(({ nextHops }) =>
      gw === undefined || nextHops.some(({ gateway }) => gateway?.equals(gw))
    );
    return !isPresent && isInvolved({ dst, gw });
  });
  throwDifferences(missing.map(({ dst, gw }) => {
    const via = gw === undefined ? "" : ` via ${gw}`;
    return { msg: `Route ${dst}${via} is not in the addresses' tables` };
  }));
}

/** Checks that a table has routes, and a default route if there is a router. */
function checkTable(
  table: readonly RouteEntry[],
  source: IpConfig,
  { config }: Given,
  defaults: ReadonlySet<IpFamily>,
): void {
  const { address } = source;
  const { ip, family } = address;
  const routes = table.filter((route) => route.family === family);
  // The kernel only adds the subnet of a loopback address to table local.
  const hasSubnet = address.prefixLength < ip.bitLength && !ip.isLoopback;
  if (routes.length === 0 && hasSubnet) {
    throw checkFailure(`The table of ${ip} is empty`);
  }
  const configured = config.gateways?.[family];
  const isExpected = ({ isDefault, nextHops }: RouteEntry): boolean =>
    isDefault &&
    (configured === undefined ||
      nextHops.some((hop) => hop.gateway?.equals(configured)));
  const hasRouter = (configured ?? routerOf(source)) !== undefined ||
    defaults.has(family);
  const lacks: string[] = [];
  if (hasRouter && !routes.some(isExpected)) {
    const via = configured === undefined ? "" : ` via ${configured}`;
    lacks.push(`a default route${via}`);
  }
  lacks.push(
    ...listFarRouters(routes, address).values().map((router) =>
      `a route to ${router}`
    ),
  );
  throwDifferences(
    lacks.map((what) => ({ msg: `The table of ${ip} lacks ${what}` })),
  );
}

/** Lists the routers within the subnet that have no direct route. */
function listFarRouters(
  routes: readonly RouteEntry[],
  address: Cidr,
): Set<string> {
  const others = routes.filter(({ isDefault }) => !isDefault);
  return new Set(
    routes.filter(({ isDefault, isOnLink }) => isDefault && !isOnLink)
      .flatMap(({ nextHops }) =>
        nextHops.flatMap(({ gateway }) => gateway ?? [])
      )
      .filter((gateway) =>
        address.contains(gateway) &&
        !others.some(({ destination }) => destination.contains(gateway))
      ).map(String),
  );
}

/** Checks that the addresses' subnets are in table main. */
function checkHints(main: readonly RouteEntry[], { ips }: Given): void {
  const destinations = new Set(main.map(({ destination }) => `${destination}`));
  const missing = hintedAddresses(ips).map((address) => address.masked())
    .filter((subnet) => !destinations.has(`${subnet}`));
  throwDifferences(
    missing.map((subnet) => ({ msg: `Table main lacks route ${subnet}` })),
  );
}
