/**
 * Routes in table main that set the source address, so that programs that do not
 * choose an address reach the subnets of all interfaces.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result/result.ts";
import { Scope } from "../../ffi/rtnl/constants.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Cidr } from "../../net/cidr.ts";

/** A route to add, and the routes that it replaces. */
export interface Hint {
  readonly route: RouteEntry;
  /** Routes to delete after the addition. */
  readonly replaced: readonly RouteEntry[];
}

/**
 * Reports whether a route leads to an address's subnet and sets that source
 * address.
 */
export function isHint(route: RouteEntry, address: Cidr): boolean {
  return isToSubnet(route, address) &&
    route.preferredSource?.equals(address.ip) === true;
}

function isToSubnet({ destination }: RouteEntry, address: Cidr): boolean {
  return destination.equals(address.masked());
}

/** Reports whether a route is a hint from this plugin or the Go plugin. */
export function isMadeHint(route: RouteEntry, address: Cidr): boolean {
  return isHint(route, address) && !route.hasGateway &&
    route.origin === "others";
}

/** Lists the addresses that get hints: the first address of each subnet. */
export function hintedAddresses(ips: readonly IpConfig[]): Cidr[] {
  const addresses = ips.map(({ address }) => address)
    .filter(({ prefixLength, ip }) => prefixLength < ip.bitLength);
  const bySubnet = Map.groupBy(addresses, (one) => String(one.masked()));
  return [...bySubnet.values()].flatMap(([first]) => first ?? []);
}

/**
 * Keeps routes on the link in table main, and sets the source address for the
 * addresses' subnets. Does not let the kernel replace a route, because it might
 * choose a different interface's route to the same subnet.
 *
 * @param emptied Routes that would be deleted from table main
 * @returns Routes to add, and routes to delete
 */
export function keepSubnets(
  emptied: readonly RouteEntry[],
  ips: readonly IpConfig[],
  ifindex: number,
): { hints: Hint[]; removals: RouteEntry[] } {
  const addresses = hintedAddresses(ips);
  const hints = addresses
    .filter((address) => !emptied.some((route) => isHint(route, address)))
    .map((address): Hint => ({
      route: hintFor(address, ifindex),
      replaced: emptied.filter((route) => isToSubnet(route, address)),
    }));
  const replaced = hints.flatMap((hint) => hint.replaced);
  const removals = emptied.filter((route) =>
    !replaced.includes(route) &&
    !addresses.some((address) => isHint(route, address)) &&
    (route.hasGateway || route.isDefault ||
      addresses.some((address) => isToSubnet(route, address)))
  );
  return { hints, removals };
}

function hintFor(address: Cidr, ifindex: number): RouteEntry {
  return RouteEntry.of({
    destination: address.masked(),
    ifindex,
    preferredSource: address.ip,
    scope: Scope.Link,
  });
}
