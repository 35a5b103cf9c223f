/**
 * Kernel constants that several requests need.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";

/** Address families. Source: include/linux/socket.h. */
export const AF_UNSPEC = 0, AF_INET = 2, AF_BRIDGE = 7, AF_INET6 = 10;

/** Scopes of addresses and routes. Source: include/uapi/linux/rtnetlink.h `rt_scope_t`. */
export const Scope = {
  Universe: 0,
  Link: 253,
  Host: 254,
  Nowhere: 255,
} as const;

/** Routing tables. Source: include/uapi/linux/rtnetlink.h `rt_class_t`. */
export const Table = {
  Unspecified: 0,
  Default: 253,
  Main: 254,
  Local: 255,
} as const;

/** The group of notifications about IPv6 addresses. Source: include/uapi/linux/rtnetlink.h. */
export const RTNLGRP_IPV6_IFADDR = 9;

/** Returns the kernel's number of an address family. */
export function addressFamily(family: IpFamily): number {
  return family === 4 ? AF_INET : AF_INET6;
}
