/**
 * REPAIR: repeats the steps of ADD, which keep existing rules and routes. Routes that
 * a table has lost are already in table main: the plugin that created the interface
 * has restored them there.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { IpConfig } from "../../cni/result/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { type NewRule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { routeBySource } from "./add.ts";
import { ruleFor } from "./plan.ts";
import {
  listedTables,
  ownRules,
  readRouting,
  tablesWithoutRule,
} from "./routing.ts";
import type { SbrConfig } from "./schema.ts";
import { isFor } from "./table.ts";

/**
 * Routes packets by their source again.
 *
 * @param sandbox Locked, so that a chosen table stays unused
 * @throws {Error} If the kernel refuses a step
 */
export function repairSources(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  call: Call<SbrConfig>,
): void {
  const rules = new RuleRequests(sandbox.socket);
  for (const rule of findLostRules(sandbox, ips, call)) rules.add(rule);
  routeBySource(sandbox, ips, call);
}

/** Finds the missing rules for existing tables. */
function findLostRules(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  { args, config: { table }, prevResult }: Call<SbrConfig>,
): NewRule[] {
  const ifindex = sandbox.link.find(args.ifName)?.index;
  if (table !== undefined || ifindex === undefined) return [];
  const routing = readRouting(sandbox);
  const listed = listedTables(prevResult);
  const tables = tablesWithoutRule(routing, { ifindex, listed });
  return ips.flatMap((ip) => {
    const own = { sources: [ip.address.ip], ifindex, table, listed };
    const hasOwn = ownRules(routing, own)
      .some((rule) => !listed.includes(rule.table));
    if (hasOwn) return [];
    const found = tables.find((table) =>
      routing.routes.some((route) => route.table === table && isFor(route, ip))
    );
    if (found === undefined) return [];
    tables.splice(tables.indexOf(found), 1);
    return [ruleFor(ip.address.ip, found)];
  });
}
