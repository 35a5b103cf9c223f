/**
 * Addresses requested by a configuration or a runtime.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";

/**
 * Parses a requested address. A prefix length, which other IPAM plugins
 * require, is accepted and ignored.
 *
 * @throws {AddressError} If it is not an address
 */
export function parseRequestedIp(text: string): Ip {
  return text.includes("/") ? Cidr.parse(text).ip : Ip.parse(text);
}
