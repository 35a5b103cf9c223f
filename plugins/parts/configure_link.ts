/**
 * Giving a link addresses and routes, with errors that say which.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { IpConfig, Route } from "../../cni/result.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Address, NewAddress } from "../../ffi/rtnl/address.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import type { LinkEnd } from "./veth.ts";

/**
 * Brings a link up.
 *
 * @throws {Error} That names the link
 */
export function bringUp(netns: Rtnl, { index, name }: LinkEnd): void {
  named(`bring "${name}" up`, () => netns.link.setUp(index));
}

/**
 * Lists a link's addresses.
 *
 * @throws {Error} That names the link
 */
export function listAddresses(
  netns: Rtnl,
  { index: ifindex, name }: LinkEnd,
): Address[] {
  return named(
    `list the addresses of "${name}"`,
    () => netns.address.list({ ifindex }),
  );
}

/**
 * Adds an address.
 *
 * @throws {Error} That names address and link
 */
export function addAddress(
  netns: Rtnl,
  link: LinkEnd,
  address: Omit<NewAddress, "ifindex">,
): void {
  named(`add address ${address.address} to "${link.name}"`, () => {
    netns.address.add({ ...address, ifindex: link.index });
  });
}

/**
 * Adds a route, beside others to the same destination. Where a container has two
 * networks with a default route each, that of the last one is used for IPv4; for
 * IPv6 they are next hops of one route.
 *
 * Source: containernetworking/plugins pkg/ipam/ipam_linux.go `ConfigureIface`.
 *
 * @throws {Error} That names route and link
 */
export function addRoute(
  netns: Rtnl,
  link: LinkEnd,
  route: KernelRoute,
): void {
  const via = route.gateway === undefined ? "" : ` via ${route.gateway}`;
  named(`add route ${route.destination}${via} to "${link.name}"`, () => {
    try {
      netns.route.prepend({ ...route, ifindex: link.index });
    } catch (error) {
      // The very same route: the configuration lists it twice.
      if (!isErrno(error, "EEXIST")) throw error;
    }
  });
}

const UINT32_MAX = 2 ** 32 - 1;
/** The largest numbers that a route can have. Source: include/uapi/linux/rtnetlink.h. */
const LARGEST = [
  ["mtu", UINT32_MAX],
  ["advmss", UINT32_MAX],
  ["priority", UINT32_MAX],
  ["table", UINT32_MAX],
  ["scope", 255],
] as const;

/**
 * Checks that the kernel has room for the numbers of an IPAM plugin's routes.
 *
 * @throws {CniError} 7 that names route, key and range
 */
export function checkRouteNumbers(routes: readonly Route[]): void {
  for (const route of routes) {
    for (const [key, largest] of LARGEST) {
      const { [key]: value = 0 } = route;
      if (value >= 0 && value <= largest) continue;
      throw new CniError(
        ErrorCode.InvalidNetworkConfig,
        `IPAM plugin returned route ${route.dst} with ${key} ${value}: ` +
          `expected 0 to ${largest}`,
      );
    }
  }
}

/** Translates a route of a result; without a gateway it goes through its family's first. */
export function kernelRouteOf(
  { dst, gw, mtu, advmss, priority, table, scope }: Route,
  ips: readonly IpConfig[],
): KernelRoute {
  return {
    destination: dst.masked(),
    gateway: gw ??
      ips.find(({ gateway }) => gateway?.family === dst.family)?.gateway,
    mtu,
    advmss,
    priority,
    // 0 is the kernel's word for whichever it thinks right, which is main.
    table: table || undefined,
    scope,
  };
}

/**
 * Says what failed.
 *
 * @param action As in "add address 10.1.2.3/24 to eth0"
 * @throws {Error} With what `work` threw as its cause
 */
export function named<T>(action: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`Cannot ${action}`, { cause: error });
  }
}
