/**
 * IPv4 and IPv6 addresses as immutable values.
 *
 * @module
 */

import { u32be, u64be, viewOf } from "./bytes.ts";

/** The two families, by IP version. */
export type IpFamily = 4 | 6;

/**
 * The error for an invalid address as text, bytes or number, and for arithmetic
 * that leaves the address space.
 *
 * Messages about invalid text start with Go's wording, because other programs
 * compare them: `invalid IP address: …`, `invalid CIDR address: …`,
 * `invalid MAC address: …`.
 */
export class AddressError extends Error {
  /** The name of the class in texts. */
  override readonly name = "AddressError";
}

/**
 * Returns `parse()`, or undefined if it throws an {@linkcode AddressError}.
 *
 * @throws Any other error of `parse`
 */
export function unlessNoAddress<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof AddressError) return undefined;
    throw error;
  }
}

const OCTET = /^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$/;
const GROUP = /^[\da-f]{1,4}$/i;

/** The upper 96 bits of `::ffff:0:0/96`, where IPv6 carries IPv4 addresses. */
const MAPPED_PREFIX = 0xffffn;

/**
 * An IPv4 or IPv6 address.
 *
 * Both fields are public, so structural comparison of two values (as test
 * assertions do) agrees with {@linkcode Ip.equals}.
 */
export class Ip {
  /** The IP version. */
  readonly family: IpFamily;
  /** The address as an unsigned integer in network byte order. */
  readonly value: bigint;

  /**
   * Builds an address from its number; prefer the named constructors.
   *
   * @throws {AddressError} If `value` is outside the family's space.
   */
  constructor(family: IpFamily, value: bigint) {
    this.family = family;
    this.value = value;
    if (value !== BigInt.asUintN(this.bitLength, value)) {
      throw new AddressError(
        `invalid IP address: ${value} is outside the IPv${family} space`,
      );
    }
  }

  /**
   * Parses the textual form of an address.
   *
   * Accepts the same forms as Go: no leading zeros in IPv4 octets, no zones,
   * brackets or blanks. An IPv4-mapped address (`::ffff:1.2.3.4`) becomes the
   * IPv4 address that it maps.
   *
   * Source: Go `net.ParseIP` (1.17 and later) followed by `net.IP.To4`.
   *
   * @throws {AddressError} If `text` is not an address.
   */
  static parse(text: string): Ip {
    const isIpv6 = text.includes(":");
    const value = isIpv6 ? parseIpv6(text) : parseIpv4(text);
    if (value === undefined) {
      throw new AddressError(`invalid IP address: ${text}`);
    }
    return unmap(new Ip(isIpv6 ? 6 : 4, value));
  }

  /**
   * Decodes an address in network byte order; the length decides the family.
   *
   * Unlike {@linkcode Ip.parse} it keeps an IPv4-mapped address in family 6:
   * the kernel lists IPv6 routes such as `::ffff:0.0.0.0/96`, and their prefix
   * length counts 128 bits.
   *
   * @param bytes 4 or 16 bytes.
   * @throws {AddressError} If there are more or fewer bytes.
   */
  static fromBytes(bytes: Uint8Array): Ip {
    if (bytes.length !== 4 && bytes.length !== 16) {
      throw new AddressError(
        `invalid IP address: want 4 or 16 bytes, got ${bytes.length}`,
      );
    }
    const view = viewOf(bytes);
    return bytes.length === 4
      ? new Ip(4, BigInt(u32be.read(view, 0)))
      : new Ip(6, u64be.read(view, 0) << 64n | u64be.read(view, 8));
  }

  /**
   * Builds an address from its number. Family 6 is kept, even for IPv4-mapped
   * values.
   *
   * @throws {AddressError} If `value` is outside the family's space.
   */
  static fromValue(family: IpFamily, value: bigint): Ip {
    return new Ip(family, value);
  }

  /** The number of bits of an address of this family. */
  get bitLength(): 32 | 128 {
    return this.family === 4 ? 32 : 128;
  }

  /** Encodes the address in network byte order, as 4 or 16 new bytes. */
  toBytes(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.bitLength / 8);
    const view = viewOf(bytes);
    if (this.family === 4) u32be.write(view, 0, Number(this.value));
    else {
      u64be.write(view, 0, this.value >> 64n);
      u64be.write(view, 8, BigInt.asUintN(64, this.value));
    }
    return bytes;
  }

  /**
   * Formats the address canonically.
   *
   * Source: RFC 5952, section 4; section 5 for IPv4-mapped addresses.
   */
  toString(): string {
    if (this.family === 4) return formatIpv4(this.value);
    const ipv4 = unmap(this);
    return ipv4 === this ? formatIpv6(this) : `::ffff:${ipv4}`;
  }

  /** Returns the canonical text for JSON. */
  toJSON(): string {
    return this.toString();
  }

  /** Shows the text in the output of `console.log()`, in Deno and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  /** Reports whether both are the same address of the same family. */
  equals(other: Ip): boolean {
    return this.family === other.family && this.value === other.value;
  }

  /**
   * Orders addresses, every IPv4 address before every IPv6 address.
   *
   * @returns -1, 0 or 1, as `Array.prototype.sort` requires.
   */
  compare(other: Ip): number {
    if (this.family !== other.family) {
      return this.family < other.family ? -1 : 1;
    }
    if (this.value === other.value) return 0;
    return this.value < other.value ? -1 : 1;
  }

  /**
   * Returns the address `offset` addresses after this address, or before it if
   * `offset` is negative.
   *
   * @throws {AddressError} If the result leaves the family's space.
   */
  add(offset: bigint): Ip {
    return new Ip(this.family, this.value + offset);
  }

  /**
   * Returns the next address.
   *
   * @throws {AddressError} If this is the last of its family.
   */
  next(): Ip {
    return this.add(1n);
  }

  /**
   * Returns the previous address.
   *
   * @throws {AddressError} If this is the first of its family.
   */
  previous(): Ip {
    return this.add(-1n);
  }

  // Like Go's methods, the predicates treat an IPv4-mapped address as IPv4.

  /**
   * Reports whether this is `0.0.0.0` or `::`.
   *
   * Source: Go `net.IP.IsUnspecified`.
   */
  get isUnspecified(): boolean {
    return unmap(this).value === 0n;
  }

  /**
   * Reports whether this is in 127.0.0.0/8 or `::1`.
   *
   * Source: Go `net.IP.IsLoopback`.
   */
  get isLoopback(): boolean {
    const { family, value } = unmap(this);
    return family === 4 ? value >> 24n === 127n : value === 1n;
  }

  /**
   * Reports whether this is in 224.0.0.0/4 or ff00::/8.
   *
   * Source: Go `net.IP.IsMulticast`.
   */
  get isMulticast(): boolean {
    const { family, value } = unmap(this);
    return family === 4 ? value >> 28n === 0xen : value >> 120n === 0xffn;
  }

  /**
   * Reports whether this is link-local unicast: in 169.254.0.0/16 or fe80::/10.
   *
   * Source: Go `net.IP.IsLinkLocalUnicast`.
   */
  get isLinkLocal(): boolean {
    const { family, value } = unmap(this);
    return family === 4 ? value >> 16n === 0xa9fen : value >> 118n === 0x3fan;
  }

  /**
   * Reports whether none of the above holds and this is not the IPv4 limited
   * broadcast address. Private ranges count as global.
   *
   * Source: Go `net.IP.IsGlobalUnicast`.
   */
  get isGlobalUnicast(): boolean {
    const { family, value } = unmap(this);
    const isLimitedBroadcast = family === 4 && value === 0xffff_ffffn;
    return !(isLimitedBroadcast || this.isUnspecified || this.isLoopback ||
      this.isMulticast || this.isLinkLocal);
  }
}

/** Converts an IPv4-mapped address to IPv4; returns any other address unchanged. */
function unmap(ip: Ip): Ip {
  const isMapped = ip.family === 6 && ip.value >> 32n === MAPPED_PREFIX;
  return isMapped ? new Ip(4, BigInt.asUintN(32, ip.value)) : ip;
}

function parseIpv4(text: string): bigint | undefined {
  const octets = text.split(".");
  if (octets.length !== 4 || !octets.every((o) => OCTET.test(o))) {
    return undefined;
  }
  return octets.reduce((value, octet) => value << 8n | BigInt(octet), 0n);
}

function parseIpv6(text: string): bigint | undefined {
  const [head = "", tail, ...excess] = withHexTail(text).split("::");
  if (excess.length > 0) return undefined;
  const left = splitGroups(head);
  const right = splitGroups(tail ?? "");
  const missing = 8 - left.length - right.length;
  // "::" stands for at least one group; without it all groups must be present.
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...left, ...new Array<string>(missing).fill("0"), ...right];
  if (!groups.every((group) => GROUP.test(group))) return undefined;
  return BigInt(`0x${groups.map((g) => g.padStart(4, "0")).join("")}`);
}

/** Rewrites a dotted tail (`::1.2.3.4`) to two groups (`::102:304`). */
function withHexTail(text: string): string {
  const tailStart = text.lastIndexOf(":") + 1;
  const ipv4 = parseIpv4(text.slice(tailStart));
  if (ipv4 === undefined) return text;
  const groups = [ipv4 >> 16n, ipv4 & 0xffffn].map((g) => g.toString(16));
  return text.slice(0, tailStart) + groups.join(":");
}

/** Splits at colons; an empty text has no groups. */
function splitGroups(text: string): string[] {
  return text === "" ? [] : text.split(":");
}

function formatIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => value >> shift & 0xffn).join(".");
}

function formatIpv6(ip: Ip): string {
  const hex = ip.value.toString(16).padStart(32, "0");
  const groups = Array.from(
    { length: 8 },
    (_, i) => parseInt(hex.slice(4 * i, 4 * i + 4), 16).toString(16),
  );
  const { start, length } = findLongestZeroRun(groups);
  if (length < 2) return groups.join(":");
  const tail = groups.slice(start + length);
  return `${groups.slice(0, start).join(":")}::${tail.join(":")}`;
}

/**
 * Finds the run of zero groups to shorten: the first of the longest runs.
 */
function findLongestZeroRun(
  groups: string[],
): { start: number; length: number } {
  let longest = { start: 0, length: 0 };
  let length = 0;
  for (const [i, group] of groups.entries()) {
    length = group === "0" ? length + 1 : 0;
    if (length > longest.length) longest = { start: i + 1 - length, length };
  }
  return longest;
}
