/**
 * Which addresses a container may have: the plugin routes them to the veth
 * pair, and so takes them from any other machine that the host reaches at these
 * addresses. Loaded only if the host has a route of its own to an address.
 *
 * An address of a subnet that the host is in is not refused for that alone: a
 * node's pods may have addresses of the uplink's subnet, as in networks of cloud
 * providers.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import type { SyscallError } from "../../ffi/errno.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import type { Route } from "../../ffi/rtnl/route.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  aliasOf,
  aliasPrefixOf,
  attachmentOf,
} from "../parts/owner/attachment.ts";
import {
  addressInUseError,
  describeUser,
  hostAddressError,
  peerHasAddress,
  requestedIpsOf,
  routerAddressError,
} from "../parts/address/free_ip.ts";
import { ipamHas } from "../parts/address/ipam_traits.ts";

/** Whose the addresses are. */
export interface AddressOwner {
  readonly call: Call;
  /** The result with the addresses. */
  readonly lease: Pick<Result, "ips">;
}

/** Reports whether the container of a veth pair no longer has an address. */
export type StalePairTest = (pair: Link, ip: Ip) => boolean;

/**
 * Builds the test for an attachment. The veth pair that it has left itself is replaced.
 * So is another veth pair of the network whose other end does not have the address:
 * the IPAM plugin has leased it again, so the old lease has ended. That alone proves
 * nothing: leases may have been deleted or restored while the container runs.
 */
export function stalePairTest(
  host: Rtnl,
  { call, lease }: AddressOwner,
): StalePairTest {
  const own = aliasOf(attachmentOf(call)), prefix = aliasPrefixOf(call.network);
  const requested = requestedIpsOf(lease, call);
  const isLeased = (ip: Ip): boolean =>
    !ipamHas(call.config, "assigns requests") &&
    !requested.some((one) => one.equals(ip));
  return (pair, ip) => {
    const { alias = "" } = pair;
    return alias === own ||
      isLeased(ip) && alias.startsWith(prefix) &&
        !peerHasAddress(host, pair, ip);
  };
}

/**
 * Checks that an address is free, as far as the host knows: neither the host's,
 * nor a router's or a neighbour's, nor a living container's.
 *
 * @param entry The host's route to the address
 * @throws {CniError} 7 if it is the host's or a router's, 11 if it is in use
 */
export function checkAddressFree(
  host: Rtnl,
  ip: Ip,
  entry: RouteEntry,
  isStale: StalePairTest,
): void {
  const { destination, isUnicast, hasGateway } = entry;
  // The other types that are found are the types of table local.
  if (!isUnicast) throw hostAddressError(host, ip, entry);
  if (destination.equals(Cidr.host(ip))) {
    return refuseIfUsed(host, ip, entry, isStale);
  }
  // Only what is on one of the host's links can be a neighbour's.
  if (!hasGateway) checkNoNeighbor(host, ip, entry, isStale);
}

/**
 * Replaces the route to an address that another link already has, if it is left
 * from a dead container.
 *
 * @param refusal What the kernel answered when the route was added
 * @throws {CniError} 11 if a living container has the address
 * @throws {SyscallError} The refusal, if the route in the way leads to no link
 */
export function replaceStaleRoute(
  host: Rtnl,
  route: Route,
  refusal: SyscallError,
  isStale: StalePairTest,
): void {
  const { destination } = route;
  const present = host.route.listEntries().filter((entry) =>
    entry.table === Table.Main && entry.destination.equals(destination)
  );
  for (const entry of present) {
    if (!entry.isUnicast) throw refusal;
    refuseIfUsed(host, destination.ip, entry, isStale);
  }
  host.route.replace(route);
}

/**
 * Refuses an address that has a route of its own, unless that is left from a dead
 * container.
 *
 * @throws {CniError} 11
 */
function refuseIfUsed(
  host: Rtnl,
  ip: Ip,
  { nextHops }: RouteEntry,
  isStale: StalePairTest,
): void {
  for (const { ifindex = 0 } of nextHops) {
    const user = findUser(host, ifindex, ip, isStale);
    if (user !== undefined) throw addressInUseError(ip, user);
  }
}

/** @param entry The route to the links on which the address may be */
function checkNoNeighbor(
  host: Rtnl,
  ip: Ip,
  { nextHops }: RouteEntry,
  isStale: StalePairTest,
): void {
  const { family } = ip;
  const onLinks = nextHops.flatMap(({ ifindex }) =>
    ifindex === undefined ? [] : [{ family, ifindex }]
  );
  const entries = onLinks.flatMap((filter) => host.route.listEntries(filter));
  const isRouter = entries.some(({ nextHops }) =>
    nextHops.some(({ gateway, ifindex = 0 }) =>
      gateway?.equals(ip) &&
      findUser(host, ifindex, ip, isStale) !== undefined
    )
  );
  if (isRouter) throw routerAddressError(ip);
  const neighbors = new NeighborRequests(host.socket);
  const neighbor = onLinks.flatMap((filter) => neighbors.list(filter))
    .find((one) => one.ip.equals(ip) && (one.isReachable || one.isPermanent));
  if (neighbor?.mac === undefined) return;
  const user = findUser(host, neighbor.ifindex, ip, isStale);
  if (user !== undefined) {
    throw addressInUseError(ip, `${neighbor.mac} on ${user}`);
  }
}

/**
 * Describes the link that leads to an address; undefined if it is the veth pair of a
 * dead container, or of this attachment. A veth pair is dead if its other end is down
 * or its namespace has ended.
 */
function findUser(
  host: Rtnl,
  ifindex: number,
  ip: Ip,
  isStale: StalePairTest,
): string | undefined {
  const link = host.link.find(ifindex);
  if (link === undefined) return undefined;
  const { kind, isOperational } = link;
  const isDead = kind === "veth" &&
    !(isOperational && host.link.hasLivePeer(link));
  if (isDead || isStale(link, ip)) return undefined;
  return describeUser(link);
}
