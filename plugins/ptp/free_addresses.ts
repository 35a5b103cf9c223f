/**
 * Checks which addresses a container can get: the plugin routes them to the veth
 * pair, and therefore away from any other machine that the host reaches at these
 * addresses. Loaded only if the host has a route to an address.
 *
 * An address in one of the host's subnets is not refused for that reason alone: a
 * node's pods can have addresses in the uplink's subnet, as in networks of cloud
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
import { ipamHas } from "../parts/traits.ts";

/** The attachment that gets the addresses. */
export interface AddressOwner {
  readonly call: Call;
  /** The result with the addresses. */
  readonly lease: Pick<Result, "ips">;
}

/** Reports whether the container of a veth pair no longer has an address. */
export type StalePairTest = (pair: Link, ip: Ip) => boolean;

/**
 * Builds the test for an attachment. The attachment's own old veth pair is replaced.
 * So is a different veth pair of the network whose other end does not have the
 * address: the IPAM plugin has leased the address again, so the old lease has ended.
 * The new lease alone proves nothing, because leases might have been deleted or
 * restored while the container runs.
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
 * Checks that an address is unused, as far as the host can determine: neither the
 * host, nor a router or a neighbour, nor a running container uses it.
 *
 * @param entry The host's route to the address
 * @throws {CniError} 7 if the host or a router has it, 11 if it is in use
 */
export function checkAddressFree(
  host: Rtnl,
  ip: Ip,
  entry: RouteEntry,
  isStale: StalePairTest,
): void {
  const { destination, isUnicast, hasGateway } = entry;
  // The other types in the result are the types in table local.
  if (!isUnicast) throw hostAddressError(host, ip, entry);
  if (destination.equals(Cidr.host(ip))) {
    return refuseIfUsed(host, ip, entry, isStale);
  }
  // Only an address on one of the host's links can belong to a neighbour.
  if (!hasGateway) checkNoNeighbor(host, ip, entry, isStale);
}

/**
 * Replaces the route to an address that a different link already has, if it remains
 * from a deleted container.
 *
 * @param refusal The kernel's error when the route was added
 * @throws {CniError} 11 if a running container has the address
 * @throws {SyscallError} The refusal, if the conflicting route leads to no link
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
 * Refuses an address that already has a route, unless it remains from a deleted
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

/** @param entry The route to the links that the address might be on */
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
 * deleted container, or of this attachment. The container of a veth pair counts as
 * deleted if its end is down or its namespace no longer exists.
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
