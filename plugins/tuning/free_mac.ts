/**
 * Checks whether an interface can get a MAC address, because no other port of its
 * bridge has it.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Mac } from "../../net/mac.ts";
import { checkMacIsFree, lockMac } from "../parts/link/free_mac.ts";
import { findHostEnd } from "../parts/link/host_end.ts";
import type { TuningConfig } from "./schema.ts";

/**
 * Reserves a MAC address among the ports of the bridge behind which the interface is.
 *
 * @returns The lock, to be held until the interface has the MAC address; undefined if
 * there is no bridge
 * @throws {CniError} 11 if a different port has the address
 */
export async function reserveMac(
  call: Call<TuningConfig>,
  sandbox: Rtnl,
  mac: Mac,
): Promise<Disposable | undefined> {
  const { args: { ifName }, hostNetns } = call;
  const link = sandbox.link.find(ifName);
  if (link?.kind !== "veth") return undefined;
  using host = Rtnl.open(hostNetns);
  const port = findHostEnd(host, sandbox, link);
  if (port?.masterIndex === undefined) return undefined;
  const bridge = host.link.find(port.masterIndex);
  if (bridge?.kind !== "bridge") return undefined;
  using stack = new DisposableStack();
  stack.use(await lockMac(host, { bridge: bridge.name, mac }, call));
  checkMacIsFree(host, { bridge, mac }, ({ index }) => index === port.index);
  return stack.move();
}
