/**
 * CHECK of the interface and its VRF.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import type { Result } from "../../cni/result.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { checkFailure, checkRoutes } from "../parts/check_link.ts";
import { kernelRouteOf } from "../parts/configure_link.ts";
import { ownPartOf } from "../parts/prev_result.ts";
import { findVrf, portsOf } from "./vrf_link.ts";

/**
 * Checks that the interface is in the VRF, and that it has its routes.
 *
 * @param wanted The configuration's name and table
 * @throws {CniError} 999 if not
 */
export function checkPort(
  sandbox: Rtnl,
  { name, table = 0 }: { name: string; table?: number | undefined },
  { args, prevResult }: { args: CmdArgs; prevResult: Result },
): void {
  const vrf = findVrf(sandbox, name);
  if (vrf === undefined) throw checkFailure(`VRF "${name}" is gone`);
  if (table !== 0 && table !== vrf.table) {
    throw checkFailure(`VRF "${name}" has table ${vrf.table}, not ${table}`);
  }
  const link = portsOf(sandbox, vrf).find((port) => port.name === args.ifName);
  if (link === undefined) {
    throw checkFailure(
      `failed to find ${args.ifName} associated to vrf ${name}`,
    );
  }
  const { routes, ips } = ownPartOf(prevResult, args);
  const wanted = routes.map((route) => kernelRouteOf(route, ips));
  checkRoutes(sandbox, link, wanted, "any");
}
