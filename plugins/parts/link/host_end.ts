/**
 * Finds the host's end of a veth pair, from the container's end or by its name.
 *
 * @module
 */

import type { Result } from "../../../cni/result/result.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { findNsid } from "../../../ffi/rtnl/nsid.ts";

/**
 * Finds the host's end of a container's veth pair. A container with CAP_NET_ADMIN
 * chooses the indexes of its links, including both ends of its own pairs, so these
 * can equal the indexes of another container's pair.
 */
export function findHostEnd(
  host: Rtnl,
  sandbox: Rtnl,
  end: Link | undefined,
): Link | undefined {
  if (end?.kind !== "veth" || !end.linkIndex) return undefined;
  const peer = host.link.find(end.linkIndex);
  const isPeer = peer?.linkIndex === end.index && leadsTo(host, peer, sandbox);
  return isPeer ? peer : undefined;
}

/**
 * Finds the host's end by its name in the result, even if the container has renamed
 * its own end.
 */
export function findListedEnd(
  host: Rtnl,
  sandbox: Rtnl,
  { interfaces }: Pick<Result, "interfaces"> = { interfaces: [] },
): Link | undefined {
  return interfaces.filter(({ sandbox }) => !sandbox)
    .flatMap(({ name }) => host.link.find(name) ?? [])
    .find((link) => leadsTo(host, link, sandbox));
}

/**
 * Reports whether a link of the host is an end of a veth pair whose peer is in a
 * namespace.
 */
export function leadsTo(
  host: Rtnl,
  { kind, linkNsid }: Link,
  { netns }: Rtnl,
): boolean {
  return kind === "veth" && linkNsid !== undefined &&
    linkNsid === findNsid(host, netns);
}
