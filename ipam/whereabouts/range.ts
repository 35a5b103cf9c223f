/**
 * Ranges of addresses: their texts, and the part that is handed out.
 *
 * Source: whereabouts pkg/types/types.go `IPAMConfig.UnmarshalJSON`,
 * pkg/iphelpers/iphelpers.go.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { AddressError, Ip, unlessNoAddress } from "../../net/ip.ts";

/** A range as its text describes it: `10.0.0.0/24` or `10.0.0.5-10.0.0.9/24`. */
export interface RangeText {
  /** The network, without host bits. */
  readonly cidr: Cidr;
  /** Both are set if the text names the ends. */
  readonly start?: Ip;
  readonly end?: Ip;
}

/** A range from which an attachment gets one address. */
export interface Range {
  /** The network in which the pool counts its offsets. */
  readonly cidr: Cidr;
  /** First and last address that can be allocated. */
  readonly first: Ip;
  readonly last: Ip;
  /** Never handed out. They may overlap, and lie outside the range. */
  readonly excluded: readonly Cidr[];
  /** Prefix length of the addresses in results. */
  readonly prefixLength: number;
}

/**
 * Parses an address. Leading zeros of octets are dropped, as the reference
 * does.
 *
 * @throws {AddressError} If it is not an address
 */
export function parseLenientIp(text: string): Ip {
  return Ip.parse(dropZeros(text));
}

function dropZeros(text: string): string {
  return text.includes(":") ? text : text.replace(/(^|\.)0+(?=\d)/g, "$1");
}

/**
 * Parses a range.
 *
 * @throws {AddressError} If it is malformed
 */
export function parseRange(text: string): RangeText {
  const dash = text.indexOf("-");
  if (dash < 0) {
    const cidr = unlessNoAddress(() => Cidr.parse(dropZeros(text)));
    if (cidr === undefined) throw new AddressError(`invalid CIDR ${text}`);
    return { cidr: checkSize(cidr.masked()) };
  }
  const [from, to] = [text.slice(0, dash), text.slice(dash + 1)];
  const start = unlessNoAddress(() => parseLenientIp(from));
  if (start === undefined) {
    throw new AddressError(`invalid range start IP: ${from}`);
  }
  const last = unlessNoAddress(() => Cidr.parse(dropZeros(to)));
  if (last === undefined) {
    throw new AddressError(
      "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) " +
        `'${to}': invalid CIDR address: ${to}`,
    );
  }
  const cidr = last.masked();
  if (!cidr.contains(start)) {
    throw new AddressError(`invalid range start for CIDR ${cidr}: ${start}`);
  }
  return { cidr: checkSize(cidr), start, end: last.ip };
}

/** @throws {AddressError} If a network has no address between its ends */
function checkSize(cidr: Cidr): Cidr {
  if (cidr.network.bitLength - cidr.prefixLength >= 2) return cidr;
  throw new AddressError(
    `net mask is too short, subnet ${cidr} has no usable IP addresses, ` +
      "it is too small",
  );
}

/**
 * Parses a part of a range that is not handed out: a network or an address.
 *
 * @throws {AddressError} If it is neither
 */
export function parseExcluded(text: string): Cidr {
  try {
    return text.includes("/")
      ? Cidr.parse(text).masked()
      : Cidr.host(Ip.parse(text));
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new AddressError(
      `could not parse exclude range, err: ${JSON.stringify(error.message)}`,
    );
  }
}

/** Options of {@linkcode resolveRange}. */
export interface RangeOptions {
  readonly start?: Ip | undefined;
  readonly end?: Ip | undefined;
  readonly excluded?: readonly Cidr[] | undefined;
  /** Prefix length of results, if not the network's. */
  readonly prefixLength?: number | undefined;
}

/**
 * Resolves a range. The first and the last address of a network are never
 * allocated, not even for IPv6. A start or an end that is not between them is
 * ignored; so is an end below the start.
 *
 * Source: whereabouts pkg/iphelpers/iphelpers.go `GetIPRange`.
 *
 * @throws {AddressError} If the network is too small
 */
export function resolveRange(cidr: Cidr, options: RangeOptions = {}): Range {
  checkSize(cidr);
  const { start, end, excluded = [], prefixLength = cidr.prefixLength } =
    options;
  let first = cidr.network.next();
  let last = cidr.last.previous();
  if (start && isBetween(start, first, last)) first = start;
  if (end && isBetween(end, first, last)) last = end;
  return { cidr, first, last, excluded, prefixLength };
}

function isBetween(ip: Ip, first: Ip, last: Ip): boolean {
  return ip.family === first.family && first.compare(ip) <= 0 &&
    ip.compare(last) <= 0;
}

/** Reports whether a range can allocate an address. */
export function contains({ first, last, excluded }: Range, ip: Ip): boolean {
  return isBetween(ip, first, last) &&
    !excluded.some((block) => block.contains(ip));
}

/** No address of a range is free. */
export class RangeFullError extends CniError {}

/**
 * Returns the error for a range without a free address.
 *
 * @param persistent How many addresses belong to IPAMClaims
 */
export function rangeIsFull(
  { first, last, cidr, excluded }: Range,
  persistent: number,
): RangeFullError {
  return new RangeFullError(
    ErrorCode.TryAgainLater,
    `Could not allocate IP in range: ip: ${first} / - ${last} / range: ` +
      `${cidr} / excludeRanges: [${excluded.map(formatExcluded).join(" ")}]`,
    persistent === 0
      ? {}
      : { details: `${persistent} of its addresses are kept for IPAMClaims` },
  );
}

function formatExcluded(block: Cidr): string {
  return block.prefixLength === block.ip.bitLength
    ? String(block.ip)
    : String(block);
}
