/**
 * ADD: routing by the source of what is sent.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { IpConfig } from "../../cni/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { carryOut } from "./carry_out.ts";
import type { SbrConfig } from "./config.ts";
import { type Plan, planMove, planRules } from "./plan.ts";
import { readRouting } from "./routing.ts";

/**
 * Makes what is sent from an interface's addresses follow routes of its own.
 *
 * @param sandbox Locked, so that the table which is chosen stays free
 * @throws {CniError} 999 if the interface is not there
 * @throws {Error} That names the step which the kernel refused; what was done is then undone
 */
export function routeBySource(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  call: Call<SbrConfig>,
): void {
  carryOut(sandbox, planFor(sandbox, ips, call), call.log);
}

/** Plans what is to be done for the addresses. */
function planFor(
  sandbox: Rtnl,
  ips: readonly IpConfig[],
  { args: { ifName }, config, log }: Call<SbrConfig>,
): Plan {
  const routing = readRouting(sandbox);
  const { table, gateways, addSourceHints } = config;
  if (table !== undefined) {
    if (gateways !== undefined || addSourceHints) {
      log.warn("Ignoring gateways and addSourceHints: the table is given");
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
  });
}
