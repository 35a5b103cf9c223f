/**
 * The addresses in a packet's header.
 *
 * @module
 */

import type { IpFamily } from "../../net/ip.ts";

/** A packet's source or destination address. */
export type AddressField = "source" | "destination";

/**
 * The offsets of the addresses in the header, in bytes.
 *
 * Source: include/uapi/linux/ip.h `struct iphdr`, include/uapi/linux/ipv6.h
 * `struct ipv6hdr`.
 */
export const ADDRESS_OFFSETS: Readonly<
  Record<IpFamily, Readonly<Record<AddressField, number>>>
> = {
  4: { source: 12, destination: 16 },
  6: { source: 8, destination: 24 },
};
