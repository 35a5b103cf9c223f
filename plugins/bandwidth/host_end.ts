/**
 * The host's end of the container's veth pair, which gets the limits.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";

/**
 * Returns the host's end, created by any plugin: the peer of the container's
 * interface. The result must list it.
 *
 * Source: containernetworking/plugins plugins/meta/bandwidth/main.go
 * `getHostInterface`, with its texts.
 *
 * @throws {CniError} 7 if it does not exist
 */
export function getHostEnd(
  host: Rtnl,
  sandbox: Rtnl,
  { interfaces }: Result,
  ifName: string,
): Link {
  if (interfaces.length === 0) throw refusal("no interfaces provided");
  const containerEnd = sandbox.link.find(ifName);
  const peerIndex = peerIndexOf(ifName, containerEnd);
  const end = findPeer(host, containerEnd);
  if (end === undefined) {
    throw refusal(`veth peer with index ${peerIndex} is not in host ns`);
  }
  if (interfaces.some(({ name, sandbox }) => !sandbox && name === end.name)) {
    return end;
  }
  throw refusal(
    "no veth peer of container interface found in host ns",
    `prevResult does not list "${end.name}"`,
  );
}

/** Finds the host's end if the container's interface is a veth pair to the host. */
export function findHostEnd(
  host: Rtnl,
  sandbox: Rtnl,
  ifName: string,
): Link | undefined {
  return findPeer(host, sandbox.link.find(ifName));
}

function peerIndexOf(ifName: string, end: Link | undefined): number {
  const what = `container interface ${ifName} has no veth peer`;
  if (end === undefined) throw refusal(`${what}: there is no such interface`);
  if (end.kind === "veth" && end.linkIndex) return end.linkIndex;
  throw refusal(
    `${what}: its kind is "${end.kind}"`,
    "bandwidth limits the host end of a veth pair, such as those of ptp and bridge",
  );
}

/**
 * Finds the other end. Indexes are local to a namespace: if the peer is in a
 * third one, its index may be any link's here.
 */
function findPeer(host: Rtnl, end: Link | undefined): Link | undefined {
  if (end?.kind !== "veth" || !end.linkIndex) return undefined;
  const peer = host.link.find(end.linkIndex);
  const isPeer = peer?.kind === "veth" && peer.linkIndex === end.index;
  return isPeer ? peer : undefined;
}

function refusal(message: string, details = ""): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message, { details });
}
