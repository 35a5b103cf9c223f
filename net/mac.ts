/**
 * Ethernet hardware addresses as immutable values.
 *
 * @module
 */

import { AddressError } from "./ip.ts";

const MAC_FORMS = [
  /^[\da-f]{2}(?::[\da-f]{2}){5}$/i,
  /^[\da-f]{2}(?:-[\da-f]{2}){5}$/i,
  /^[\da-f]{4}(?:\.[\da-f]{4}){2}$/i,
  /^[\da-f]{12}$/i,
];

const MULTICAST_BIT = 0x01;
const LOCALLY_ADMINISTERED_BIT = 0x02;

/**
 * A 48-bit hardware address.
 *
 * Its only field is public, so structural comparison of two values (as test
 * assertions do) agrees with {@linkcode Mac.equals}.
 */
export class Mac {
  /** The address as 12 lower-case hexadecimal digits. */
  readonly hex: string;

  /**
   * Builds an address from its bytes; prefer the named constructors.
   *
   * @throws {AddressError} If `bytes` does not have exactly 6 bytes.
   */
  constructor(bytes: Uint8Array) {
    if (bytes.length !== 6) {
      throw new AddressError(
        `invalid MAC address: want 6 bytes, got ${bytes.length}`,
      );
    }
    this.hex = bytes.toHex();
  }

  /**
   * Parses `02:00:5e:00:53:01`, `02-00-5e-00-53-01`, `0200.5e00.5301` or
   * `02005e005301`, in either case.
   *
   * Go also accepts 8-byte and 20-byte (InfiniBand) addresses; these are
   * refused, because no Ethernet link can have them. Go accepts the form
   * without separators since 1.26.
   *
   * Source: Go `net.ParseMAC`.
   *
   * @throws {AddressError} If `text` has none of these forms.
   */
  static parse(text: string): Mac {
    if (!MAC_FORMS.some((form) => form.test(text))) {
      throw new AddressError(`invalid MAC address: ${text}`);
    }
    return new Mac(Uint8Array.fromHex(text.replaceAll(/[:.-]/g, "")));
  }

  /**
   * Decodes an address in transmission order.
   *
   * @throws {AddressError} If `bytes` does not have exactly 6 bytes.
   */
  static fromBytes(bytes: Uint8Array): Mac {
    return new Mac(bytes);
  }

  /** Draws a locally administered unicast address with 46 random bits. */
  static random(): Mac {
    const [first = 0, ...rest] = crypto.getRandomValues(new Uint8Array(6));
    const localUnicast = (first | LOCALLY_ADMINISTERED_BIT) & ~MULTICAST_BIT;
    return new Mac(Uint8Array.of(localUnicast, ...rest));
  }

  /** Encodes the address in transmission order, as 6 new bytes. */
  toBytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.fromHex(this.hex);
  }

  /** Formats the address as `02:00:5e:00:53:01`. */
  toString(): string {
    return this.hex.replaceAll(/..(?=.)/g, "$&:");
  }

  /** Returns the canonical text for JSON. */
  toJSON(): string {
    return this.toString();
  }

  /** Shows the text in the output of `console.log()`, in Deno and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  /** Reports whether both are the same address. */
  equals(other: Mac): boolean {
    return this.hex === other.hex;
  }

  /** Reports whether this is a group address, broadcast included. */
  get isMulticast(): boolean {
    return (this.#firstByte & MULTICAST_BIT) !== 0;
  }

  /**
   * Reports whether this is locally administered, not assigned by a vendor.
   */
  get isLocallyAdministered(): boolean {
    return (this.#firstByte & LOCALLY_ADMINISTERED_BIT) !== 0;
  }

  get #firstByte(): number {
    return parseInt(this.hex.slice(0, 2), 16);
  }
}
