/**
 * Routes of table main that say which address to send from: so who has chosen
 * no address reaches the subnets of all interfaces.
 *
 * @module
 */

import type { IpConfig } from "../../cni/result.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Cidr } from "../../net/cidr.ts";

/** Source: include/uapi/linux/rtnetlink.h `rt_scope_t`. */
const SCOPE_LINK = 253;

/** A route to add, and what it takes the place of. */
export interface Hint {
  readonly route: RouteEntry;
  /** To be deleted once it is there. */
  readonly replaced: readonly RouteEntry[];
}

/** Says whether a route leads to an address's subnet and has packets sent from it. */
export function isHint(route: RouteEntry, address: Cidr): boolean {
  return isToSubnet(route, address) &&
    route.preferredSource?.equals(address.ip) === true;
}

function isToSubnet({ destination }: RouteEntry, address: Cidr): boolean {
  return destination.equals(address.masked());
}

/** Says whether a route is a hint that this plugin made, or the Go plugin. */
export function isMadeHint(route: RouteEntry, address: Cidr): boolean {
  return isHint(route, address) && !route.hasGateway &&
    route.origin === "others";
}

/** Lists the addresses that get hints: of those in one subnet the first. */
export function hintedAddresses(ips: readonly IpConfig[]): Cidr[] {
  const addresses = ips.map(({ address }) => address)
    .filter(({ prefixLength, ip }) => prefixLength < ip.bitLength);
  return addresses.filter((address, position) =>
    addresses.findIndex((other) => isSameSubnet(other, address)) === position
  );
}

function isSameSubnet(one: Cidr, other: Cidr): boolean {
  return one.masked().equals(other.masked());
}

/**
 * Keeps what is on the link in table main, the addresses' subnets with the
 * address to send from. The kernel is not asked to replace a route: it might
 * take another interface's route to the same subnet for the one that is meant.
 *
 * @param emptied What would be deleted from table main
 * @returns What is to be deleted of it, and what is to be added
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
    scope: SCOPE_LINK,
  });
}
