/**
 * CHECK of the interface and its VRF.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { checkFailure, throwDifferences } from "../parts/link/check_link.ts";
import { findVrf, portsOf } from "./vrf_link.ts";

/**
 * Checks that the interface is in the VRF. The plugin that created the interface
 * checks its routes.
 *
 * @param wanted The configuration's name and table
 * @throws {CniError} 999 if not
 */
export function checkPort(
  sandbox: Rtnl,
  { ifName }: CmdArgs,
  { name, table = 0 }: { name: string; table?: number | undefined },
): void {
  const vrf = findVrf(sandbox, name);
  if (vrf === undefined) throw checkFailure(`VRF "${name}" no longer exists`);
  const hasTable = table === 0 || table === vrf.table;
  const hasPort = portsOf(sandbox, vrf).some((port) => port.name === ifName);
  throwDifferences([
    ...hasTable
      ? []
      : [{ msg: `VRF "${name}" has table ${vrf.table}, not ${table}` }],
    ...hasPort ? [] : [{
      msg: `failed to find ${ifName} associated to vrf ${name}`,
      expected: {
        kind: "link",
        netns: sandbox.netns.path,
        link: ifName,
        master: name,
      } as const,
    }],
  ]);
}
