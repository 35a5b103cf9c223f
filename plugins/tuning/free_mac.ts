/**
 * Whether an interface may have a MAC: no other port of its bridge has it.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Mac } from "../../net/mac.ts";
import { checkMacIsFree } from "../parts/free_mac.ts";
import type { TuningConfig } from "./schema.ts";

/**
 * Refuses the MAC of another port of the bridge that the interface is behind.
 *
 * @throws {CniError} 11
 */
export function refuseTakenMac(
  { args: { ifName }, hostNetns }: Call<TuningConfig>,
  sandbox: Rtnl,
  mac: Mac,
): void {
  const link = sandbox.link.find(ifName);
  if (link?.kind !== "veth" || link.linkIndex === undefined) return;
  using host = Rtnl.open(hostNetns);
  const port = host.link.find(link.linkIndex);
  if (port?.linkIndex !== link.index || port.masterIndex === undefined) return;
  const bridge = host.link.find(port.masterIndex);
  if (bridge?.kind !== "bridge") return;
  checkMacIsFree(host, { bridge, mac }, ({ index }) => index === port.index);
}
