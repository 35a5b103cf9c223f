/**
 * Addresses that another container still has: a virtual machine that migrates
 * has them on both nodes. A plugin that assigns such an address must not
 * announce it to the network.
 *
 * @module
 */

import type { IpConfig, Result } from "./result.ts";

/** The key of an address in a result. */
const QUIET = "cni.dev/quiet";

/** Marks an address. */
export function asQuiet(config: IpConfig): IpConfig {
  return { ...config, unknownKeys: { ...config.unknownKeys, [QUIET]: true } };
}

/** Reports whether a result has such an address. */
export function isQuiet({ ips }: Pick<Result, "ips">): boolean {
  return ips.some(({ unknownKeys }) => unknownKeys?.[QUIET] === true);
}
