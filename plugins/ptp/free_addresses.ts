/**
 * Which addresses a container may have: the plugin routes them to the veth pair, and
 * so takes them from whoever else the host reaches there.
 *
 * An address of a subnet that the host is in is not refused for that alone: a
 * node's pods may have addresses of the uplink's subnet, as in networks of cloud
 * providers.
 *
 * @module
 */

import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  aliasOf,
  aliasPrefixOf,
  type Attachment,
} from "../parts/owner/attachment.ts";
import {
  describeUser,
  hasIt,
  ipInUse,
  isNextHop,
} from "../parts/address/free_ip.ts";

/** Reports whether the container of a veth pair no longer has its addresses. */
export type PairTest = (pair: Pick<Link, "alias">) => boolean;

/**
 * Builds the test for an attachment. The veth pair that it has left itself is replaced.
 * So is another veth pair of the network: the IPAM plugin has handed out the address
 * again, so its lease has ended. `static` has no leases.
 */
export function leftPairTest(
  attachment: Attachment,
  ipamType: string | undefined,
): PairTest {
  const own = aliasOf(attachment), prefix = aliasPrefixOf(attachment.network);
  return ({ alias = "" }) =>
    alias === own || ipamType !== "static" && alias.startsWith(prefix);
}

/**
 * Checks that an address is nobody else's, as far as the host knows: neither the
 * host's, nor a router's or a neighbour's, nor a living container's.
 *
 * @throws {CniError} 7 if it is the host's or a router's, 11 if it is in use
 */
export function checkIsFree(host: Rtnl, ip: Ip, isLeft: PairTest): void {
  const entry = host.route.findMatch(ip);
  if (entry === undefined) return;
  const { destination, isUnicast, hasGateway } = entry;
  // The other types that are found are those of table local.
  if (!isUnicast) throw hasIt(host, ip, entry);
  if (destination.equals(Cidr.host(ip))) {
    return refuseTaken(host, ip, entry, isLeft);
  }
  // Only what is on one of the host's links can be a neighbour's.
  if (!hasGateway) checkIsNoNeighbor(host, ip, isLeft);
}

/**
 * Refuses an address that has a route of its own, unless that is left from a dead
 * container.
 *
 * @throws {CniError} 11
 */
export function refuseTaken(
  host: Rtnl,
  ip: Ip,
  { nextHops }: RouteEntry,
  isLeft: PairTest,
): void {
  for (const { ifindex = 0 } of nextHops) {
    const user = findUser(host, ifindex, isLeft);
    if (user !== undefined) throw ipInUse(ip, user);
  }
}

function checkIsNoNeighbor(host: Rtnl, ip: Ip, isLeft: PairTest): void {
  const isRouter = host.route.listEntries().some(({ nextHops }) =>
    nextHops.some(({ gateway, ifindex = 0 }) =>
      gateway?.equals(ip) && findUser(host, ifindex, isLeft) !== undefined
    )
  );
  if (isRouter) throw isNextHop(ip);
  const { family } = ip;
  const neighbor = new NeighborRequests(host.socket).list({ family })
    .find((one) => one.ip.equals(ip) && (one.isReachable || one.isPermanent));
  if (neighbor?.mac === undefined) return;
  const user = findUser(host, neighbor.ifindex, isLeft);
  if (user !== undefined) throw ipInUse(ip, `${neighbor.mac} on ${user}`);
}

/**
 * Describes the link that leads to an address; undefined if it is the veth pair of a
 * dead container, or of this attachment. A veth pair is dead if its other end is down
 * or its namespace has ended.
 */
function findUser(
  host: Rtnl,
  ifindex: number,
  isLeft: PairTest,
): string | undefined {
  const link = host.link.find(ifindex);
  if (link === undefined) return undefined;
  const { kind, isOperational } = link;
  const isDead = kind === "veth" &&
    !(isOperational && host.link.hasLivePeer(link));
  if (isDead || isLeft(link)) return undefined;
  return describeUser(link);
}
