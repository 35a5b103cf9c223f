/**
 * The living attachments of a network, by the links that this project's plugins have
 * named after them.
 *
 * A container can give its own links any alias and address. So the addresses of an
 * attachment are those that the host knows: from the runtime's cache, or by the host's
 * routes. Without both, they are the link's; and a namespace can then have one
 * attachment of which the host has no link.
 *
 * @module
 */

import { yieldToEventLoop } from "../../../base/deadline.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { CachedAttachment } from "../../../libcni/cache.ts";
import type { LivingAttachment } from "../../../metadata/orphans.ts";
import { Cidr } from "../../../net/cidr.ts";
import type { Ip } from "../../../net/ip.ts";
import { aliasPrefixOf, findLinkOwner } from "../owner/attachment.ts";
import { isSameInterface } from "../../../cni/config/types.ts";
import { cachedAddressesOf, eachCached } from "./evidence.ts";
import { netnsOf } from "../../../libcni/cached_result.ts";

/** Where to look for attachments. */
export interface LivingSearch {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** Paths of the containers' namespaces; deleted ones are skipped. */
  readonly namespaces: readonly string[];
  /** Directories with caches of attachments; those that cannot be read are skipped. */
  readonly caches: readonly string[];
}

/** An attachment, and whether the host knows its addresses. */
interface Found extends LivingAttachment {
  readonly isConfirmed: boolean;
}

/**
 * Lists the attachments of a network: by the host's ends of veth pairs, and by
 * links in containers. Those whose addresses the host knows come first. The others
 * may have any addresses: the caller must limit them. Lets the event loop run.
 *
 * @throws {Error} If the host's links cannot be listed
 */
export async function listLiving(
  network: string,
  { hostNetns, namespaces, caches }: LivingSearch,
): Promise<LivingAttachment[]> {
  const cached = (ifPossible(() => [...eachCached(caches)]) ?? [])
    .filter((attachment) => attachment.network === network);
  const prefix = aliasPrefixOf(network);
  const isOfNetwork = ({ alias }: Link): boolean =>
    alias?.startsWith(prefix) === true;
  const found = listOnHost(hostNetns, isOfNetwork, cached);
  for (const path of namespaces) {
    await yieldToEventLoop();
    const inside = ifPossible(() => listInside(path, isOfNetwork, cached));
    found.push(...inside ?? []);
  }
  const confirmed = found.filter(({ isConfirmed }) => isConfirmed);
  return [...confirmed, ...found.filter((one) => !confirmed.includes(one))]
    .map(({ containerId, ifName, ips }) => ({ containerId, ifName, ips }));
}

function listOnHost(
  hostNetns: string,
  isOfNetwork: (link: Link) => boolean,
  cached: readonly CachedAttachment[],
): Found[] {
  using host = Rtnl.open(hostNetns);
  const links = host.link.list().filter(isOfNetwork);
  const routes = links.length === 0 ? [] : host.route.list();
  return links.flatMap((link) => {
    const owner = findLinkOwner(link);
    if (owner === undefined) return [];
    const entry = cached.find((one) => isSameInterface(one, owner));
    const known = entry === undefined
      ? routes.filter(({ ifindex }) => ifindex === link.index)
        .filter(({ destination: to }) => to.equals(Cidr.host(to.ip)))
        .map(({ destination }) => destination.ip)
      : cachedAddressesOf(entry);
    const isConfirmed = known.length > 0;
    const ips = isConfirmed ? known : listPeerIps(hostNetns, link);
    return [{ ...owner, ips, isConfirmed }];
  });
}

/** Lists the attachments of a container by its own links. */
function listInside(
  path: string,
  isOfNetwork: (link: Link) => boolean,
  cached: readonly CachedAttachment[],
): Found[] {
  const id = findFileId(path);
  using netns = Rtnl.openUntrusted(path);
  const found = netns.link.list().filter(isOfNetwork).flatMap((link) => {
    const owner = findLinkOwner(link);
    if (owner === undefined) return [];
    const entry = cached.find((one) =>
      isSameInterface(one, owner) && findFileId(netnsOf(one)) === id
    );
    const isConfirmed = entry !== undefined;
    const ips = isConfirmed
      ? cachedAddressesOf(entry)
      : listIps(netns, { ifindex: link.index });
    return [{ ...owner, ips, isConfirmed }];
  });
  const confirmed = found.filter(({ isConfirmed }) => isConfirmed);
  return confirmed.length > 0 ? confirmed : found.slice(0, 1);
}

/**
 * Lists the addresses of a veth's other end; none if it is in no other namespace, or has
 * too many.
 */
function listPeerIps(
  hostNetns: string,
  { kind, linkIndex: ifindex, linkNsid: nsid = -1 }: Link,
): Ip[] {
  if (kind !== "veth" || ifindex === undefined || nsid < 0) return [];
  // The container chooses how many: a socket with a limit, for one list.
  using host = Rtnl.openUntrusted(hostNetns);
  try {
    return listIps(host, { ifindex, nsid });
  } catch (error) {
    // The container or its link has ended, or the kernel is older than 4.20.
    if (isErrno(error, "EINVAL", "EACCES", "ENODEV", "EMSGSIZE")) return [];
    throw error;
  }
}

function listIps(
  place: Rtnl,
  of: { readonly ifindex: number; readonly nsid?: number },
): Ip[] {
  return place.address.list(of).map(({ address }) => address.ip);
}
