/**
 * The host's end of a veth pair, found by the container's end.
 *
 * @module
 */

import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";

/**
 * Finds the host's end of a veth pair. Indexes are local to a namespace: if the
 * peer is in a third one, its index may be any link's here.
 */
export function findHostEnd(
  host: Rtnl,
  end: Link | undefined,
): Link | undefined {
  if (end?.kind !== "veth" || !end.linkIndex) return undefined;
  const peer = host.link.find(end.linkIndex);
  const isPeer = peer?.kind === "veth" && peer.linkIndex === end.index;
  return isPeer ? peer : undefined;
}
