/**
 * The values of routes, which are the kernel's.
 *
 * Source: CNI spec 1.1.0, "Add Success"; include/uapi/linux/rtnetlink.h.
 *
 * @module
 */

import type { Route } from "./result.ts";

/** Where destinations are: anywhere, or on the link. */
export const RouteScope = { global: 0, link: 253 } as const;

/** Tables that the kernel looks into anyway; 0 stands for main. */
export const RouteTable = { main: 254, local: 255 } as const;

/** Reports whether a route is in table main. */
export function isInMain({ table }: Pick<Route, "table">): boolean {
  return !table || table === RouteTable.main;
}

const UINT32_MAX = 2 ** 32 - 1;
/** The largest values of a route's numbers. */
const LARGEST = [
  ["mtu", UINT32_MAX],
  ["advmss", UINT32_MAX],
  ["priority", UINT32_MAX],
  ["table", UINT32_MAX],
  ["scope", 255],
] as const;

/**
 * Describes the value of a route that the kernel cannot represent: a number beyond the
 * range of its field, or a gateway that is not a host address, that is of the other
 * address family, or that conflicts with a destination on the link.
 */
export function findUnfitValue(route: Route): string | undefined {
  for (const [key, largest] of LARGEST) {
    const { [key]: value = 0 } = route;
    if (value >= 0 && value <= largest) continue;
    return `${key} ${value}: expected 0 to ${largest}`;
  }
  const { dst: { family }, gw, scope = RouteScope.global } = route;
  if (gw === undefined) return undefined;
  if (gw.isLoopback || gw.isMulticast) {
    return `gw ${gw}: it is not a host address`;
  }
  if (gw.family !== family) return `gw ${gw}: expected an IPv${family} address`;
  // The kernel takes 0.0.0.0 for none, which DHCP servers name for the link.
  const isNone = family !== 4 || gw.isUnspecified;
  return scope >= RouteScope.link && !isNone
    ? `gw ${gw}: a route of scope ${scope} must not have a gateway`
    : undefined;
}
