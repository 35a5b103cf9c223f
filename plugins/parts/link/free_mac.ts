/**
 * Which MAC a container may ask for: with the MAC of another port of its bridge,
 * it would get that container's frames.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { lockPrivately } from "../../../base/files/lock.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import type { Mac } from "../../../net/mac.ts";
import { netnsIdOf } from "../sandbox/sandbox.ts";

/**
 * Waits until no other call gives the MAC to a port of the bridge: two calls
 * could both find it free otherwise. Hold the lock until the port has the MAC.
 *
 * @param bridge The bridge's name; the bridge need not exist
 * @throws {CniError} 11 if others take too long
 */
export function lockMac(
  { netns }: Pick<Rtnl, "netns">,
  { bridge, mac }: { readonly bridge: string; readonly mac: Mac },
  { log, signal }: Pick<Call, "log" | "signal">,
): Promise<Disposable> {
  const what = `MAC ${mac} of "${bridge}"`;
  const name = `mac-${netnsIdOf(netns)}-${bridge}-${mac}`;
  return lockPrivately(name, { what, log, signal });
}

/**
 * Checks that no other port of a bridge has a MAC: neither the port nor its other
 * end has it, and no static forwarding entry names it. Entries that the bridge has
 * learned do not count, as any container can send such frames.
 *
 * @param isOwn Reports whether a port is the container's
 * @throws {CniError} 11
 */
export function checkMacIsFree(
  host: Rtnl,
  { bridge, mac }: { readonly bridge: Link; readonly mac: Mac },
  isOwn: (port: Link) => boolean,
): void {
  const refuse = (user: string): CniError =>
    new CniError(
      ErrorCode.TryAgainLater,
      `Cannot give the container MAC ${mac}: it is in use by ${user}`,
    );
  if (bridge.mac?.equals(mac)) throw refuse(`"${bridge.name}"`);
  const ports = host.link.list({ masterIndex: bridge.index });
  for (const port of ports.filter((port) => !isOwn(port))) {
    const peer = port.kind === "veth" ? host.link.findPeer(port) : undefined;
    if (![port, peer].some((end) => end?.mac?.equals(mac))) continue;
    const owner = port.alias ? ` (${port.alias})` : "";
    throw refuse(`port "${port.name}" of "${bridge.name}"${owner}`);
  }
  const entry = new NeighborRequests(host.socket).listForwarding()
    .find((one) =>
      one.bridgeIndex === bridge.index && one.isStatic && one.mac.equals(mac) &&
      !ports.some((port) => port.index === one.ifindex && isOwn(port))
    );
  if (entry !== undefined) {
    throw refuse(`a static entry of "${bridge.name}"`);
  }
}
