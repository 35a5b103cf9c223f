/**
 * Addresses with a prefix length: networks, and interface addresses in them.
 *
 * @module
 */

import { AddressError, Ip, type IpFamily } from "./ip.ts";

const ADDRESS_AND_LENGTH = /^(.+)\/(\d+)$/;

/**
 * An address and the length of its network prefix.
 *
 * It keeps host bits, so `10.0.0.5/24` can be an interface's address;
 * {@linkcode Cidr.masked} returns the network.
 */
export class Cidr {
  /** The given address, with its host bits. */
  readonly ip: Ip;
  /** The number of leading network bits, 0 to 32 or 128. */
  readonly prefixLength: number;

  /**
   * Joins an address and a prefix length; prefer the named constructors.
   *
   * @throws {AddressError} If `prefixLength` does not fit the family.
   */
  constructor(ip: Ip, prefixLength: number) {
    this.ip = ip;
    this.prefixLength = prefixLength;
    const isCount = Number.isInteger(prefixLength) && prefixLength >= 0;
    if (!isCount || prefixLength > ip.bitLength) {
      throw new AddressError(`invalid CIDR address: ${this}`);
    }
  }

  /**
   * Parses `address/length`. As in Go, the length is decimal digits without a
   * sign, and leading zeros are allowed.
   *
   * An IPv4-mapped address becomes IPv4, and its length loses the 96 mapped
   * bits: `::ffff:1.2.3.4/120` is `1.2.3.4/24`. Unlike in Go, its length must
   * be at least 96, because no IPv4 prefix length can express less: Go prints
   * `::ffff:1.2.3.4/64` as `1.2.3.4/0`.
   *
   * Source: Go `net.ParseCIDR`.
   *
   * @throws {AddressError} If `text` does not have this form.
   */
  static parse(text: string): Cidr {
    const [, address = "", length = ""] = ADDRESS_AND_LENGTH.exec(text) ?? [];
    try {
      const ip = Ip.parse(address);
      const mappedBits = address.includes(":") ? 128 - ip.bitLength : 0;
      return new Cidr(ip, Number(length) - mappedBits);
    } catch {
      // As in Go, the message shows the whole text, whichever half is invalid.
      throw new AddressError(`invalid CIDR address: ${text}`);
    }
  }

  /**
   * Joins an address and a prefix length.
   *
   * @throws {AddressError} If `prefixLength` does not fit the family.
   */
  static of(ip: Ip, prefixLength: number): Cidr {
    return new Cidr(ip, prefixLength);
  }

  /** Builds the network of a single address, a /32 or /128. */
  static host(ip: Ip): Cidr {
    return new Cidr(ip, ip.bitLength);
  }

  /** The IP version. */
  get family(): IpFamily {
    return this.ip.family;
  }

  /** Returns the first address of the network, all host bits 0. */
  get network(): Ip {
    return Ip.fromValue(this.family, this.ip.value & ~this.#hostMask);
  }

  /** Returns the last address of the network, all host bits 1. */
  get last(): Ip {
    return Ip.fromValue(this.family, this.ip.value | this.#hostMask);
  }

  /**
   * Returns the broadcast address; undefined for IPv6, and for /31 and /32,
   * where every address is a host (RFC 3021).
   */
  get broadcast(): Ip | undefined {
    return this.family === 4 && this.prefixLength < 31 ? this.last : undefined;
  }

  /** Reports whether the address differs from its network's first address. */
  get hasHostBits(): boolean {
    return (this.ip.value & this.#hostMask) !== 0n;
  }

  /** Returns the network without host bits: `10.0.0.0/24` of `10.0.0.5/24`. */
  masked(): Cidr {
    return new Cidr(this.network, this.prefixLength);
  }

  /** Reports whether `ip` is in this network; false for another family. */
  contains(ip: Ip): boolean {
    const differingBits = this.ip.value ^ ip.value;
    return this.family === ip.family &&
      (differingBits & ~this.#hostMask) === 0n;
  }

  /** Reports whether every address of `other` is in this network. */
  containsCidr(other: Cidr): boolean {
    return this.prefixLength <= other.prefixLength && this.contains(other.ip);
  }

  /** Reports whether the networks share an address: one contains the other. */
  overlaps(other: Cidr): boolean {
    return this.containsCidr(other) || other.containsCidr(this);
  }

  /**
   * Reports whether the addresses, with host bits, and the prefix lengths are
   * equal.
   */
  equals(other: Cidr): boolean {
    return this.ip.equals(other.ip) && this.prefixLength === other.prefixLength;
  }

  /** Formats it as `address/length`, with the host bits. */
  toString(): string {
    return `${this.ip}/${this.prefixLength}`;
  }

  /** Returns the canonical text for JSON. */
  toJSON(): string {
    return this.toString();
  }

  /** Shows the text in the output of `console.log()`, in Deno and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  get #hostMask(): bigint {
    return (1n << BigInt(this.ip.bitLength - this.prefixLength)) - 1n;
  }
}
