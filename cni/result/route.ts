/**
 * The numbers of routes, which are the kernel's.
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

/** Names the number of a route that does not fit the kernel's field, and the range. */
export function findUnfitNumber(route: Route): string | undefined {
  for (const [key, largest] of LARGEST) {
    const { [key]: value = 0 } = route;
    if (value >= 0 && value <= largest) continue;
    return `${key} ${value}: expected 0 to ${largest}`;
  }
  return undefined;
}
