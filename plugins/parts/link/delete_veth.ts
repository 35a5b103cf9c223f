/**
 * Deletes veth pairs: of an attachment, even if the Go plugin created it, and of
 * attachments that are no longer valid.
 *
 * @module
 */

import type { Call } from "../../../cni/plugin.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import { isAtLeast } from "../../../cni/version.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { TearDownStep } from "../../../base/rollback.ts";
import {
  attachmentOf,
  findLinkOwner,
  staleLinkTest,
} from "../owner/attachment.ts";
import { deleteNow } from "./delete_links.ts";
import { findHostEnd, leadsTo } from "./host_end.ts";
import { readablePrevResult } from "../sandbox/prev_result.ts";
import { findSandbox } from "../sandbox/sandbox.ts";
import { findOwnHostEnd, isOurHostEnd } from "./veth.ts";

/**
 * Reports whether a link of the host might be the host's end of a plugin's veth pair.
 */
export type PeerTest = (peer: Link) => boolean;

/**
 * Deletes the veth pair by its host's end. The Go plugin gives host ends random
 * names, so its veth pairs are found by the container's end.
 *
 * @param isLikelyPeer Distinguishes the Go plugin's veth pairs from other plugins'
 * pairs if there is no other evidence
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
 * Finds the host's end of the Go plugin's veth pair. DEL also follows an ADD that
 * failed because the name was taken; the interface then belongs to a different
 * attachment. Since 0.4.0, a prevResult shows whether an ADD has succeeded. If the
 * runtime has lost it, the leased addresses show it.
 */
async function findGoHostEnd(
  host: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<Link | undefined> {
  using sandbox = findSandbox(call);
  if (sandbox === undefined) return undefined;
  return await findByName(host, sandbox, call, isLikelyPeer) ??
    findByResult(host, sandbox, call, isLikelyPeer);
}

async function findByName(
  host: Rtnl,
  sandbox: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Promise<Link | undefined> {
  const link = sandbox.link.find(call.args.ifName);
  const peer = findHostEnd(host, sandbox, link);
  if (link === undefined || peer === undefined) return undefined;
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
 * Finds the host's end by its name in prevResult, because the container might have
 * renamed its own end.
 */
function findByResult(
  host: Rtnl,
  sandbox: Rtnl,
  call: Call,
  isLikelyPeer: PeerTest,
): Link | undefined {
  const { interfaces = [] } = readablePrevResult(call) ?? {};
  const isListed = interfaces.some(({ name, sandbox }) =>
    name === call.args.ifName && sandbox
  );
  if (!isListed) return undefined;
  return interfaces.filter(({ sandbox }) => !sandbox)
    .flatMap(({ name }) => host.link.find(name) ?? [])
    .find((link) =>
      leadsTo(host, link, sandbox) && !isOurHostEnd(link.name) &&
      isLikelyPeer(link)
    );
}

/**
 * Lists the steps of GC: the veth pairs of stale attachments to the network are
 * deleted, then their addresses are released. The addresses of a veth pair that
 * was not seen or could not be deleted stay leased: once an address is allocated
 * again, it must no longer be routed to the old container.
 *
 * @param more Steps in between
 */
export function collectVeths(
  call: Call,
  ...more: readonly TearDownStep[]
): TearDownStep[] {
  const { hostNetns, validAttachments: valid, config } = call;
  let isLeft = false;
  return [
    ["delete stale interfaces", async () => {
      if (valid === undefined) return;
      using host = Rtnl.open(hostNetns);
      try {
        // The next GC finds the links that an incomplete list omits.
        const { items, isComplete } = host.link.listSome({ kind: "veth" });
        isLeft = !isComplete;
        await deleteNow(listStaleHostEnds(items, call, valid), call);
      } catch (error) {
        isLeft = true;
        throw error;
      }
    }],
    ...more,
    ["release stale addresses", async () => {
      if (!config.ipam?.type) return;
      await call.ipam.gc(isLeft && valid ? listLeft(call, valid) : []);
    }],
  ];
}

function listStaleHostEnds(
  links: readonly Link[],
  { network }: Call,
  valid: readonly AttachmentId[],
): Link[] {
  const isStale = staleLinkTest(network, valid);
  return links.filter((link) => isOurHostEnd(link.name) && isStale(link));
}

/**
 * Lists the stale attachments whose veth pairs still exist.
 *
 * @throws {Error} If a veth pair names its attachment only partly, or the list of links
 *   keeps changing
 */
function listLeft(call: Call, valid: readonly AttachmentId[]): AttachmentId[] {
  using host = Rtnl.open(call.hostNetns);
  return listStaleHostEnds(host.link.list({ kind: "veth" }), call, valid).map(
    (link) => {
      const owner = findLinkOwner(link);
      if (owner !== undefined && !owner.isTruncated) return owner;
      throw new Error(
        `the alias of "${link.name}" does not name all of its owner`,
      );
    },
  );
}
