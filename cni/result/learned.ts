/**
 * Addresses and routes that an interface already has when its IPAM plugin
 * returns: the kernel or a daemon has them from the network, and changes them
 * when the network does. The plugin of the interface leaves them alone.
 *
 * @module
 */

import type { IpConfig, Result, Route } from "./result.ts";

/** The key of an address or a route in a result. */
const LEARNED = "cni.dev/learned";

/** Marks an address or a route. */
export function markLearned<T extends IpConfig | Route>(item: T): T {
  return { ...item, unknownKeys: { ...item.unknownKeys, [LEARNED]: true } };
}

/** Reports whether an interface has an address or a route from the network. */
export function isLearned({ unknownKeys }: IpConfig | Route): boolean {
  return unknownKeys?.[LEARNED] === true;
}

/** Returns the part of a result that the plugin of the interface configures. */
export function withoutLearned<T extends Pick<Result, "ips" | "routes">>(
  result: T,
): T {
  const isOwn = (item: IpConfig | Route): boolean => !isLearned(item);
  return {
    ...result,
    ips: result.ips.filter(isOwn),
    routes: result.routes.filter(isOwn),
  };
}
