/**
 * Checks which MAC addresses a container can request: with the MAC address of another
 * port of its bridge, it would receive that container's frames.
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
 * Waits until no other call assigns the MAC address to a port of the bridge.
 * Otherwise, two calls could both find it unused. Hold the lock until the port has
 * the MAC address.
 *
 * @param bridge The bridge's name; the bridge need not exist
 * @throws {CniError} 11 if a different call takes too long
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
 * Checks that no other port of a bridge has a MAC address: neither the port nor its
 * peer has it, and no static forwarding entry contains it. Learned entries are
 * ignored, because any container can send frames that create them.
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
