/**
 * Addresses that another container still has: a virtual machine that migrates
 * has them on both nodes. A plugin that assigns such an address must not
 * announce it to the network.
 *
 * @module
 */

import type { IpConfig, Result } from "./result.ts";

/** The key of an address in a result. */
const SUPPRESSED = "cni.dev/quiet";

/** Marks an address. */
export function suppressAnnouncement(config: IpConfig): IpConfig {
  return {
    ...config,
    unknownKeys: { ...config.unknownKeys, [SUPPRESSED]: true },
  };
}

/** Reports whether a result has such an address. */
export function isAnnouncementSuppressed(
  { ips }: Pick<Result, "ips">,
): boolean {
  return ips.some(({ unknownKeys }) => unknownKeys?.[SUPPRESSED] === true);
}
