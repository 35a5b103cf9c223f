/**
 * DEL: undoes ADD from the remains of an attachment.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { throwAll } from "../../base/rollback.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type Rule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import type { Cidr } from "../../net/cidr.ts";
import { listAddresses } from "../parts/link/configure_link.ts";
import {
  isDoneAlready,
  type PlannedStep,
} from "../parts/sandbox/planned_steps.ts";
import { readablePrevResult } from "../parts/sandbox/prev_result.ts";
import {
  addingEntry,
  deletingEntry,
  deletingRule,
  describeRoute,
} from "./apply_plan.ts";
import type { SbrConfig } from "./schema.ts";
import { nearestFirst } from "./plan.ts";
import { USUAL_PRIORITY } from "./table.ts";
import {
  listedDefaults,
  listedTables,
  ownRules,
  readRouting,
  type Routing,
  sourcesOf,
} from "./routing.ts";
import { isMadeHint } from "./source_hints.ts";

/** The remains of an attachment. */
interface Remains {
  /** Addresses of the interface, and of prevResult. */
  readonly addresses: readonly Cidr[];
  /** The interface; undefined if it was deleted. */
  readonly ifindex: number | undefined;
  readonly prevResult: Result | undefined;
  readonly config: SbrConfig;
}

/** The changes of DEL, in order. */
interface ReleasePlan {
  /** Routes to delete from table main. */
  readonly hints: readonly RouteEntry[];
  /** Routes to add to table main. */
  readonly returning: readonly RouteEntry[];
  /** Routes to delete from the addresses' tables. */
  readonly emptied: readonly RouteEntry[];
  /** Rules to delete. They are deleted last, because they identify everything else. */
  readonly rules: readonly Rule[];
}

/**
 * Removes the rules of the interface's addresses, and empties the addresses' tables.
 * Their routes return to table main, where other plugins expect them. If the
 * interface was deleted, its routes were deleted as well.
 *
 * @throws {Error} If the kernel refuses a deletion; names it, after all other
 * deletions
 */
export function releaseSources(sandbox: Rtnl, call: Call<SbrConfig>): void {
  const plan = planRelease(readRouting(sandbox), findRemains(sandbox, call));
  const routes = sandbox.route;
  const rules = new RuleRequests(sandbox.socket);
  const deleting = (route: RouteEntry): PlannedStep =>
    deletingEntry(routes, route);
  const steps: (PlannedStep & { isOptional?: boolean })[] = [
    ...plan.hints.map(deleting),
    ...plan.returning.map((route) => ({
      ...addingEntry(routes, route),
      action: `return ${describeRoute(route)}`,
      isOptional: true,
    })),
    ...plan.emptied.map(deleting),
    ...plan.rules.map((rule) => deletingRule(rules, rule)),
  ];
  const failures: Error[] = [];
  const causes = new Set<unknown>();
  const refusals = sandbox.socket.attemptAll(steps.map(({ work }) => work));
  for (const [position, { action, isOptional }] of steps.entries()) {
    const cause = refusals[position];
    if (cause === undefined || isDoneAlready(cause)) continue;
    if (isOptional) {
      call.log.warn(`Cannot ${action}`, { problem: describeError(cause) });
    } else if (!causes.has(cause)) {
      // All of them have the same error if the requests cannot be sent.
      causes.add(cause);
      failures.push(new Error(`Cannot ${action}`, { cause }));
    }
  }
  throwAll(failures, `${failures.length} rules and routes cannot be deleted`);
}

function findRemains(
  sandbox: Rtnl,
  call: Call<SbrConfig>,
): Remains {
  const { args, config } = call;
  const link = sandbox.link.find(args.ifName);
  const prevResult = readablePrevResult(call);
  const listed = prevResult === undefined
    ? []
    : sourcesOf(prevResult, args).map(({ address }) => address);
  const present =
    (link === undefined ? sandbox.address.list() : listAddresses(sandbox, link))
      .map(({ address }) => address);
  // Without the interface, its addresses are deleted: existing addresses belong to
  // different interfaces.
  const ofOthers = new Set(present.map(({ ip }) => String(ip)));
  const addresses = link === undefined
    ? listed.filter(({ ip }) => !ofOthers.has(String(ip)))
    : [...listed, ...present];
  return { addresses, ifindex: link?.index, prevResult, config };
}

function planRelease(routing: Routing, remains: Remains): ReleasePlan {
  const { addresses, ifindex, prevResult, config } = remains;
  const { table, addSourceHints } = config;
  const sources = addresses.map(({ ip }) => ip);
  const listed = listedTables(prevResult);
  const rules = ownRules(routing, { sources, ifindex, table, listed });
  if (ifindex === undefined || table !== undefined || rules.length === 0) {
    return { hints: [], returning: [], emptied: [], rules };
  }
  const own = new Set(rules);
  const ofOthers = new Set(
    routing.rules.filter((rule) => !own.has(rule)).map(({ table }) => table),
  );
  // Only these rules lead to the tables.
  const tables = new Set(rules.map(({ table }) => table)).difference(ofOthers);
  const emptied = nearestFirst(
    routing.routes.filter((route) => tables.has(route.table)),
  );
  const ofMain = routing.routes.filter((route) => route.table === Table.Main)
    .flatMap((route) => route.over(ifindex) ?? []);
  const { hints = [], main = [] } = Object.groupBy(
    ofMain,
    (route) =>
      addSourceHints && addresses.some((address) => isMadeHint(route, address))
        ? "hints"
        : "main",
  );
  const ways = new Set(main.map(({ way }) => way));
  const returning = [
    ...emptied.filter((route) => !route.isDefault && !ways.has(route.way)),
    ...returningDefaults(remains, { main, emptied, ifindex }),
  ].map((route) => route.inTable(Table.Main));
  return { hints, returning, emptied: emptied.toReversed(), rules };
}

/**
 * Lists the default routes of table main that ADD has moved, and default routes that
 * it has replaced with the configuration's gateways. The tables also contain default
 * routes that ADD created, so the result decides: it lists the routes of the
 * interface's plugin.
 */
function returningDefaults(
  { prevResult, config }: Remains,
  { main, emptied, ifindex }: {
    readonly main: readonly RouteEntry[];
    readonly emptied: readonly RouteEntry[];
    readonly ifindex: number;
  },
): RouteEntry[] {
  return listedDefaults(prevResult).flatMap((listed) => {
    const { dst: destination, gw: gateway, priority } = listed;
    const isListed = (route: RouteEntry): boolean =>
      route.isDefault && route.family === destination.family &&
      (priority === undefined || route.priority === priority) &&
      (gateway === undefined ||
        route.nextHops.some((hop) => hop.gateway?.equals(gateway)));
    if (main.some(isListed)) return [];
    const candidates = emptied.filter(isListed);
    // Routes that ADD created next to moved routes have the default metric.
    const moved = candidates.filter((route) =>
      route.priority !== USUAL_PRIORITY[route.family]
    );
    if (moved.length > 0) return moved;
    const [usual] = candidates;
    if (usual !== undefined) return usual;
    const configured = config.gateways?.[destination.family];
    if (configured === undefined) return [];
    const replacement = emptied.find((route) =>
      route.isDefault &&
      route.nextHops.some((hop) => hop.gateway?.equals(configured))
    );
    return RouteEntry.of({
      ...listed,
      destination,
      gateway,
      ifindex,
      priority: priority ?? replacement?.priority,
    });
  });
}
