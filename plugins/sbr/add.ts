/**
 * ADD: routes packets by their source.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { IpConfig } from "../../cni/result/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { applyPlan } from "./apply_plan.ts";
import type { SbrConfig } from "./schema.ts";
import { type Plan, planMove, planRules } from "./plan.ts";
import { listedTables, readRouting } from "./routing.ts";

/**
 * Routes packets from an interface's addresses with separate tables.
 *
 * @param sandbox Locked, so that the chosen table stays unused
 * @throws {CniError} 999 if the interface does not exist
 * @throws {Error} If the kernel refuses a step; names the step, after all steps are
 * undone
 */
export function routeBySource(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  call: Call<SbrConfig>,
): void {
  applyPlan(sandbox, planFor(sandbox, ips, call), call.log);
}

/** Plans the changes for the addresses. */
function planFor(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  { args: { ifName }, config, prevResult, log }: Call<SbrConfig>,
): Plan {
  const routing = readRouting(sandbox);
  const { table, gateways, addSourceHints } = config;
  if (table !== undefined) {
    if (gateways !== undefined || addSourceHints) {
      log.warn(
        "Ignoring gateways and addSourceHints: the configuration sets a table",
      );
    }
    return planRules(routing, ips, table);
  }
  const link = sandbox.link.find(ifName);
  if (link === undefined) {
    throw new CniError(
      ErrorCode.Internal,
      `Cannot find network interface ${ifName}`,
    );
  }
  return planMove(routing, {
    ips,
    ifindex: link.index,
    gateways: gateways ?? {},
    addSourceHints: addSourceHints ?? false,
    listed: listedTables(prevResult),
  });
}
