/**
 * Deletes cables: an attachment's, ours or the Go plugin's, and those of
 * attachments that are no longer valid.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { ValidAttachment } from "../../cni/types.ts";
import { isAtLeast } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { attachmentOf, staleLinkTest } from "./attachment.ts";
import { deleteWithDeferred } from "./deferred_links.ts";
import { readablePrevResult } from "./prev_result.ts";
import { findSandbox } from "./sandbox.ts";
import { findOwnHostEnd, isOurHostEnd } from "./veth.ts";

/** Reports whether a link of the host may be the host's end of a plugin's cable. */
export type PeerTest = (peer: Link) => boolean;

/**
 * Deletes the cable by its host's end, or by its container's end if the Go
 * plugin created it: the Go plugin gives hosts' ends random names.
 *
 * @param isLikelyPeer Distinguishes the Go plugin's cables from other plugins'
 * if nothing else does
 * @throws {CniError} 11 or 999 if the sandbox exists and cannot be opened
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteVeth(
  host: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): void {
  const hostEnd = findOwnHostEnd(host, attachmentOf(call));
  deleteWithDeferred(host, hostEnd, call);
  if (hostEnd !== undefined) return;
  using sandbox = findSandbox(call);
  const link = sandbox?.link.find(call.args.ifName);
  if (link !== undefined && isFromGoPlugin(host, link, call, isLikelyPeer)) {
    sandbox?.link.ensureGone(link.index);
  }
}

/**
 * Reports whether an interface of the sandbox is this attachment's if no host's
 * end has our name. After an ADD that failed because the name was taken, DEL
 * follows, too, and then the interface is another attachment's. From 0.4.0 on,
 * a prevResult shows whether an ADD has succeeded.
 */
function isFromGoPlugin(
  host: Rtnl,
  { kind, linkIndex, name }: Link,
  call: Call,
  isLikelyPeer: PeerTest,
): boolean {
  if (kind !== "veth" || linkIndex === undefined) return false;
  const peer = host.link.find(linkIndex);
  if (peer === undefined || isOurHostEnd(peer.name) || !isLikelyPeer(peer)) {
    return false;
  }
  if (!isAtLeast(call.cniVersion, "0.4.0")) return true;
  const named = readablePrevResult(call)?.interfaces.map((one) => one.name) ??
    [];
  return named.includes(name) && named.includes(peer.name);
}

/**
 * Deletes the cables of attachments to the network that are no longer valid.
 *
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteStaleVeths(
  host: Rtnl,
  network: string,
  valid: readonly ValidAttachment[],
): void {
  const isStale = staleLinkTest(network, valid);
  // The next GC finds the links that an incomplete list misses.
  const stale = host.link.list({ mayBeIncomplete: true })
    .filter((link) => isOurHostEnd(link.name) && isStale(link));
  host.link.ensureAllGone(stale.map(({ index }) => index));
}
