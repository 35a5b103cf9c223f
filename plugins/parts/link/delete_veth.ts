/**
 * Deletes veth pairs: an attachment's, ours or the Go plugin's, and those of
 * attachments that are no longer valid.
 *
 * @module
 */

import type { Call } from "../../../cni/plugin.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import { isAtLeast } from "../../../cni/version.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { attachmentOf, staleLinkTest } from "../owner/attachment.ts";
import { deleteNow } from "./delete_links.ts";
import { readablePrevResult } from "../sandbox/prev_result.ts";
import { findSandbox } from "../sandbox/sandbox.ts";
import { findOwnHostEnd, isOurHostEnd } from "./veth.ts";

/** Reports whether a link of the host may be the host's end of a plugin's veth pair. */
export type PeerTest = (peer: Link) => boolean;

/**
 * Deletes the veth pair by its host's end. The Go plugin gives host ends random
 * names, so its veth pairs are found by the container's end.
 *
 * @param isLikelyPeer Distinguishes the Go plugin's veth pairs from other plugins'
 * if nothing else does
 * @throws {CniError} 11 or 999 if the sandbox exists and cannot be opened
 * @throws {Error} If the kernel refuses; names the link
 */
export async function deleteVeth(
  host: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<void> {
  const end = findOwnHostEnd(host, attachmentOf(call)) ??
    await findGoHostEnd(host, call, isLikelyPeer);
  if (end !== undefined) await deleteNow([end], call);
}

/**
 * Finds the host's end of the Go plugin's veth pair. DEL also follows an ADD
 * that failed because the name was taken; the interface then belongs to another
 * attachment. From 0.4.0 on, a prevResult shows whether an ADD has succeeded.
 * If the runtime has lost it, the leased addresses do.
 */
async function findGoHostEnd(
  host: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<Link | undefined> {
  using sandbox = findSandbox(call);
  if (sandbox === undefined) return undefined;
  return await findByName(host, sandbox, call, isLikelyPeer) ??
    await findByResult(host, sandbox, call, isLikelyPeer);
}

async function findByName(
  host: Rtnl,
  sandbox: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<Link | undefined> {
  const link = sandbox.link.find(call.args.ifName);
  if (link?.kind !== "veth") return undefined;
  if (link.linkIndex === undefined) return undefined;
  const peer = host.link.find(link.linkIndex);
  // Another namespace's link may have the same index.
  if (peer?.kind !== "veth" || peer.linkIndex !== link.index) return undefined;
  if (isOurHostEnd(peer.name) || !isLikelyPeer(peer)) return undefined;
  if (!isAtLeast(call.cniVersion, "0.4.0")) return peer;
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) {
    const { hasLeasedAddresses } = await import("./leased_link.ts");
    return await hasLeasedAddresses(call, sandbox, link) ? peer : undefined;
  }
  const named = prevResult.interfaces.map(({ name }) => name);
  return named.includes(link.name) && named.includes(peer.name)
    ? peer
    : undefined;
}

/**
 * Finds the host's end by its name in prevResult: the container may have renamed
 * its own.
 */
async function findByResult(
  host: Rtnl,
  sandbox: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<Link | undefined> {
  const { interfaces = [] } = readablePrevResult(call) ?? {};
  const isListed = interfaces.some(({ name, sandbox }) =>
    name === call.args.ifName && sandbox
  );
  if (!isListed) return undefined;
  const { numberOfNetns } = await import("../../../ffi/rtnl/netns_number.ts");
  const number = numberOfNetns(host, sandbox.netns);
  if (number === undefined) return undefined;
  return interfaces.filter(({ sandbox }) => !sandbox)
    .flatMap(({ name }) => host.link.find(name) ?? [])
    .find((link) =>
      link.kind === "veth" && link.linkNetnsId === number &&
      !isOurHostEnd(link.name) && isLikelyPeer(link)
    );
}

/**
 * Deletes the veth pairs of attachments to the network that are no longer valid.
 *
 * @throws {Error} If the kernel refuses; names the link
 */
export async function deleteStaleVeths(
  host: Rtnl,
  call: Call,
  valid: readonly AttachmentId[],
): Promise<void> {
  const isStale = staleLinkTest(call.network, valid);
  // The next GC finds the links that an incomplete list misses.
  const stale = host.link.list({ mayBeIncomplete: true })
    .filter((link) => isOurHostEnd(link.name) && isStale(link));
  await deleteNow(stale, call);
}
