/**
 * Adds addresses and routes to a link, with errors that name them.
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
 * @throws {Error} If the kernel refuses. The error names the link
 */
export function bringUp(netns: Rtnl, { index, name }: LinkEnd): void {
  named(`bring "${name}" up`, () => netns.link.setUp(index));
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
  return named(
    `list the addresses of "${name}"`,
    () => netns.address.list({ ifindex }),
  );
}

/**
 * Adds an address.
 *
 * @throws {Error} If the kernel refuses. The error names address and link
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
 * Adds a route next to others with the same destination. If a container has two
 * networks with a default route each, IPv4 uses the last network's; in IPv6
 * they are next hops of one route.
 *
 * Source: containernetworking/plugins pkg/ipam/ipam_linux.go `ConfigureIface`.
 *
 * @throws {Error} If the kernel refuses. The error names route and link
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
      // The configuration lists the same route twice.
      if (!isErrno(error, "EEXIST")) throw error;
    }
  });
}

const UINT32_MAX = 2 ** 32 - 1;
/** The largest values of a route's numbers. Source: include/uapi/linux/rtnetlink.h. */
const LARGEST = [
  ["mtu", UINT32_MAX],
  ["advmss", UINT32_MAX],
  ["priority", UINT32_MAX],
  ["table", UINT32_MAX],
  ["scope", 255],
] as const;

/**
 * Checks that the numbers in an IPAM plugin's routes fit the kernel's fields.
 *
 * @throws {CniError} 7 if a number does not fit. The error names route, key and
 * range
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

/**
 * Converts a route of a result. Without a gateway, it uses the first gateway of
 * its family.
 */
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
    // 0 lets the kernel choose, and it chooses main.
    table: table || undefined,
    scope,
  };
}

/**
 * Runs `work`, and names the action if it fails.
 *
 * @param action Such as "add address 10.1.2.3/24 to eth0"
 * @throws {Error} With the error of `work` as its cause
 */
export function named<T>(action: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`Cannot ${action}`, { cause: error });
  }
}
