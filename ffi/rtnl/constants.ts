/**
 * Kernel constants that several rtnetlink messages need, under the kernel's
 * names. They are not used outside `ffi/`.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";

/** Address families. Source: include/linux/socket.h. */
export const AF_UNSPEC = 0, AF_INET = 2, AF_BRIDGE = 7, AF_INET6 = 10;

/** Scopes of addresses and routes. Source: include/uapi/linux/rtnetlink.h `rt_scope_t`. */
export const RT_SCOPE_UNIVERSE = 0, RT_SCOPE_NOWHERE = 255;

/** Returns the kernel's number of an address family. */
export function addressFamily(family: IpFamily): number {
  return family === 4 ? AF_INET : AF_INET6;
}
