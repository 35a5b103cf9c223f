/**
 * Addresses that pods and controllers request, which plugins receive as they are
 * written.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { Cidr } from "../../../net/cidr.ts";
import { AddressError, Ip } from "../../../net/ip.ts";

/**
 * Checks an address with or without a prefix length.
 *
 * @throws {CniError} 7 If it is malformed
 */
export function checkIp(text: string): void {
  const quoted = JSON.stringify(text);
  try {
    if (text.includes("/")) Cidr.parse(text);
    else Ip.parse(text);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      text.includes("/")
        ? `failed to parse CIDR ${quoted}: ${error.message}`
        : `failed to parse IP address ${quoted}`,
    );
  }
}

const OCTETS = /^[\da-f]{2}([:-])[\da-f]{2}(?:\1[\da-f]{2})*$/i;
const DOTTED = /^[\da-f]{4}(?:\.[\da-f]{4})+$/i;

/** Octets of Ethernet, EUI-64 (an InfiniBand GUID) and IP over InfiniBand. */
const LENGTHS = [6, 8, 20];

/**
 * Reports whether a text is a hardware address: octets separated by colons or
 * dashes, or pairs of octets separated by dots.
 *
 * Source: Go net `ParseMAC`. Go 1.26 added a form without separators, which no
 * plugin reads yet.
 */
export function isHardwareAddress(text: string): boolean {
  const octets = text.replaceAll(/[:.-]/g, "").length / 2;
  return (OCTETS.test(text) || DOTTED.test(text)) && LENGTHS.includes(octets);
}
