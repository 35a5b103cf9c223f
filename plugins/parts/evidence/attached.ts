/**
 * The living attachments of a network, by the links that this project's plugins have
 * named after them.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { LivingAttachment } from "../../../metadata/leftovers.ts";
import type { Ip } from "../../../net/ip.ts";
import { aliasPrefixOf, findLinkOwner } from "../owner/attachment.ts";

/**
 * Lists the attachments of a network: by the host's ends of veth pairs, and by
 * links in containers.
 *
 * @param hostNetns Path of the host's namespace
 * @param namespaces Paths of the containers' namespaces; deleted ones are skipped
 * @throws {Error} If the host's links cannot be listed
 */
export function listLiving(
  network: string,
  hostNetns: string,
  namespaces: readonly string[],
): LivingAttachment[] {
  const prefix = aliasPrefixOf(network);
  const isOfNetwork = ({ alias }: Link): boolean =>
    alias?.startsWith(prefix) === true;
  using host = Rtnl.open(hostNetns);
  return [
    ...host.link.list().filter(isOfNetwork).flatMap((link) =>
      describe(link, () => listPeerIps(host, link))
    ),
    ...namespaces.flatMap((path) =>
      ifPossible(() => {
        using netns = Rtnl.open(path);
        return netns.link.list().filter(isOfNetwork).flatMap((link) =>
          describe(link, () => listIps(netns, { ifindex: link.index }))
        );
      }) ?? []
    ),
  ];
}

function describe(link: Link, list: () => Ip[]): LivingAttachment[] {
  const owner = findLinkOwner(link);
  if (owner === undefined) return [];
  const { containerId, ifName } = owner;
  return [{ containerId, ifName, ips: list() }];
}

/** Lists the addresses of a veth's other end; none if it is in no other namespace. */
function listPeerIps(
  host: Rtnl,
  { kind, linkIndex: ifindex, linkNetnsId: netnsId = -1 }: Link,
): Ip[] {
  if (kind !== "veth" || ifindex === undefined || netnsId < 0) return [];
  try {
    return listIps(host, { ifindex, netnsId });
  } catch (error) {
    // The container or its link has ended, or the kernel is older than 4.20.
    if (isErrno(error, "EINVAL", "EACCES", "ENODEV")) return [];
    throw error;
  }
}

function listIps(
  place: Rtnl,
  of: { readonly ifindex: number; readonly netnsId?: number },
): Ip[] {
  return place.address.list(of).map(({ address }) => address.ip);
}
