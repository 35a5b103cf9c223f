/**
 * Addresses of sockets.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";

/** `AF_INET` and `AF_INET6`. Source: include/linux/socket.h. */
export const SOCKET_DOMAINS: Readonly<Record<IpFamily, number>> = {
  4: 2,
  6: 10,
};

/** Encodes a `struct sockaddr_in` or `sockaddr_in6`. Source: include/uapi/linux/in.h, in6.h. */
export function encodeAddress(ip: Ip, port = 0): Bytes {
  const isIpv4 = ip.family === 4;
  const bytes = new Uint8Array(isIpv4 ? 16 : 28);
  viewOf(bytes).setUint16(0, SOCKET_DOMAINS[ip.family], true);
  viewOf(bytes).setUint16(2, port);
  bytes.set(ip.toBytes(), isIpv4 ? 4 : 8);
  return bytes;
}
