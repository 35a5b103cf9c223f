/**
 * Adds addresses and routes to a link, with errors that name them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { IpConfig, Result, Route } from "../../../cni/result/result.ts";
import { findUnfitValue, RouteScope } from "../../../cni/result/route.ts";
import { isErrno, type SyscallError } from "../../../ffi/errno.ts";
import type { Address, NewAddress } from "../../../ffi/rtnl/address.ts";
import { Scope } from "../../../ffi/rtnl/constants.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../../ffi/rtnl/route.ts";
import { Cidr } from "../../../net/cidr.ts";
import type { Ip } from "../../../net/ip.ts";
import type { LinkEnd } from "./veth.ts";

/** A change of a namespace, for {@linkcode makeChanges}. */
export interface NetnsChange {
  /** The action, such as "add address 10.1.2.3/24 to eth0". */
  readonly action: string;
  /** Makes a single netlink request. */
  readonly make: () => void;
  /** Handles the kernel's refusal, or throws. */
  readonly recover?: (refusal: SyscallError) => void;
}

/**
 * Makes changes of a namespace together. If the kernel refuses a change, the
 * remaining changes are still made.
 *
 * @throws {Error} If the kernel refuses a change: names the first refused change
 */
export function makeChanges(
  { socket }: Rtnl,
  changes: readonly NetnsChange[],
): void {
  const refusals = socket.attemptAll(
    changes.map(({ action, make }) => () => withAction(action, make)),
  );
  for (const [position, { action, recover }] of changes.entries()) {
    const refusal = refusals[position];
    if (refusal === undefined) continue;
    withAction(action, () => {
      if (recover === undefined) throw refusal;
      recover(refusal);
    });
  }
}

/** The change that brings a link up. */
export function bringingUp(netns: Rtnl, { index, name }: LinkEnd): NetnsChange {
  return {
    action: `bring "${name}" up`,
    make: () => netns.link.set(index, { isUp: true }),
  };
}

/**
 * Lists a link's addresses.
 *
 * @throws {Error} If the kernel refuses. The error names the link
 */
export function listAddresses(
  netns: Rtnl,
  { index: ifindex, name }: LinkEnd,
): Address[] {
  return withAction(
    `list the addresses of "${name}"`,
    () => netns.address.list({ ifindex }),
  );
}

/** Reports whether a container, or one of its links, has an address. */
export function hasAddress(
  host: Rtnl,
  place: { readonly nsid: number; readonly ifindex?: number },
  wanted: Ip,
): boolean {
  try {
    return host.address.list({ family: wanted.family, ...place })
      .some(({ address }) => address.ip.equals(wanted));
  } catch (error) {
    // The container or its link was deleted, or the kernel is older than 4.20.
    if (isErrno(error, "EINVAL", "EACCES", "ENODEV")) return false;
    throw error;
  }
}

/** The change that adds an address. */
export function addingAddress(
  netns: Rtnl,
  { index: ifindex, name }: LinkEnd,
  address: Omit<NewAddress, "ifindex">,
): NetnsChange {
  return {
    action: `add address ${address.address} to "${name}"`,
    make: () => netns.address.add({ ...address, ifindex }),
  };
}

/**
 * The change that adds a route next to existing routes with the same destination. If
 * a container has two networks with a default route each, IPv4 uses the last
 * network's route; in IPv6, they are next hops of the same route.
 *
 * Source: containernetworking/plugins pkg/ipam/ipam_linux.go `ConfigureIface`.
 */
export function addingRoute(
  netns: Rtnl,
  { index: ifindex, name }: LinkEnd,
  route: KernelRoute,
): NetnsChange {
  const via = route.gateway === undefined ? "" : ` via ${route.gateway}`;
  return {
    action: `add route ${route.destination}${via} to "${name}"`,
    make: () => netns.route.prepend({ ...route, ifindex }),
    recover(refusal): void {
      // The configuration lists the same route twice.
      if (refusal.errno !== "EEXIST") throw refusal;
    },
  };
}

/**
 * Checks that the values of an IPAM plugin's routes fit the kernel's fields.
 *
 * @throws {CniError} 7 if a value does not fit. The error names route, key and the
 * expected value
 */
export function checkRouteValues(routes: readonly Route[]): void {
  for (const route of routes) {
    const problem = findUnfitValue(route);
    if (problem === undefined) continue;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `IPAM plugin returned route ${route.dst} with ${problem}`,
    );
  }
}

/**
 * Converts a route of a result. Without a gateway, it uses the first gateway of
 * its family, unless its scope means that the destination is on the link.
 */
export function kernelRouteOf(
  { dst, gw, mtu, advmss, priority, table, scope }: Route,
  ips: readonly IpConfig[],
): KernelRoute {
  return {
    destination: dst.masked(),
    gateway: gw ??
      (scope === RouteScope.link
        ? undefined
        : ips.find(({ gateway }) => gateway?.family === dst.family)?.gateway),
    mtu,
    advmss,
    priority,
    // 0 lets the kernel choose, and the kernel chooses main.
    table: table || undefined,
    scope,
  };
}

/**
 * Converts the routes of an interface that has neighbours on its link. Such an
 * interface also reaches a gateway outside its subnets on the link: a route to the
 * gateway itself precedes the first route through it.
 */
export function kernelRoutesOf(
  { ips, routes }: Pick<Result, "ips" | "routes">,
): KernelRoute[] {
  const all: KernelRoute[] = [];
  for (const route of routes.map((route) => kernelRouteOf(route, ips))) {
    const { gateway, table } = route;
    if (gateway !== undefined && isOutside(gateway, ips)) {
      const direct = {
        destination: Cidr.host(gateway),
        scope: Scope.Link,
        table,
      };
      if (!all.some((other) => covers(other, direct))) all.push(direct);
    }
    all.push(route);
  }
  return all;
}

/** Reports whether a gateway is in no subnet of an interface's addresses. */
export function isOutside(
  gateway: Ip,
  ips: readonly Pick<IpConfig, "address">[],
): boolean {
  // The kernel has fe80::/64 on every link, and treats 0.0.0.0 as no gateway.
  if (gateway.family === 6 && gateway.isLinkLocal) return false;
  if (gateway.isUnspecified) return false;
  return !ips.some(({ address }) => address.contains(gateway));
}

/** Reports whether a route puts the other route's destination on the link. */
function covers(
  { destination, gateway, scope, table }: KernelRoute,
  direct: KernelRoute,
): boolean {
  return gateway === undefined && table === direct.table &&
    (destination.family === 6 || scope === Scope.Link) &&
    destination.containsCidr(direct.destination);
}

/**
 * Runs `work`, and names the action if it fails.
 *
 * @param action The action, such as "add address 10.1.2.3/24 to eth0"
 * @throws {Error} With the error of `work` as its cause
 */
export function withAction<T>(action: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`Cannot ${action}`, { cause: error });
  }
}
