/**
 * Properties of every netlink codec: decoding an encoded value returns the
 * value, and invalid bytes cause only an expected error.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { Bytes, Codec } from "../../net/bytes.ts";
import { AddressError, Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";

const ROUNDS = 200;

/** Draws bytes. */
export function randomBytes(length: number): Bytes {
  return crypto.getRandomValues(new Uint8Array(length));
}

/** Draws an integer of 0 to `limit` - 1; small ones and the largest are frequent. */
export function randomBelow(limit: number): number {
  const [word = 0, way = 0] = crypto.getRandomValues(new Uint32Array(2));
  if (way % 4 === 0) return limit - 1;
  return word % (way % 4 === 1 ? Math.min(limit, 4) : limit);
}

/** Draws one of several. */
export function randomOf<T>(first: T, ...others: T[]): T {
  return [first, ...others][randomBelow(others.length + 1)] ?? first;
}

/** Draws a value, or leaves it out. */
export function maybe<K extends string, T>(
  key: K,
  draw: () => T,
): Partial<Record<K, T>> {
  return randomBelow(2) === 0 ? {} : { [key]: draw() } as Record<K, T>;
}

/** Draws text of up to `longest` characters without a NUL, of one to four bytes each. */
export function randomText(longest: number): string {
  return Array.from(
    { length: randomBelow(longest + 1) },
    () => randomOf("a", "é", "€", "𝄞", "."),
  ).join("");
}

/** Draws an address of either family. */
export function randomIp(): Ip {
  return Ip.fromBytes(randomBytes(randomOf(4, 16)));
}

/** Draws a link-layer address. */
export function randomMac(): Mac {
  return Mac.fromBytes(randomBytes(6));
}

/** Tests that every kind of message gets. */
export interface MessageSample<T> {
  /** The messages, with the names and numbers that the kernel has for them. */
  readonly numbers: readonly (readonly [
    message: { readonly name: string; readonly type: number },
    name: string,
    type: number,
  ])[];
  /** One of them; the others are laid out alike. */
  readonly codec: Codec<T>;
  /** Draws a random message. */
  readonly draw: () => T;
}

/**
 * Registers the tests of kinds of messages: that they have the kernel's
 * numbers, and what must hold for every codec.
 *
 * @param what Names them, as `link`
 */
export function testMessages<T>(
  what: string,
  { numbers, codec, draw }: MessageSample<T>,
): void {
  Deno.test(`${what} messages have the kernel's numbers`, () => {
    assertEquals(
      numbers.map(([{ name, type }]) => [name, type]),
      numbers.map(([, name, type]) => [name, type]),
    );
  });
  Deno.test(`${what} messages return any values unharmed`, () => {
    assertRoundTrip(codec, draw);
  });
  Deno.test(`decoding ${what} messages is safe with any bytes`, () => {
    assertDecodeIsTotal(
      (bytes) => codec.decode(bytes),
      () => codec.encode(draw()),
    );
  });
}

/** Asserts that drawn values are the same after encoding and decoding. */
export function assertRoundTrip<T>(codec: Codec<T>, draw: () => T): void {
  for (let round = 0; round < ROUNDS; round++) {
    const value = draw();
    const bytes = codec.encode(value);
    assertEquals(codec.decode(bytes), value, bytes.toHex());
  }
}

/**
 * Asserts that decoding ends, and with no other error than one of length, for
 * random bytes and for samples that were cut off, had bits flipped, or both.
 */
export function assertDecodeIsTotal(
  decode: (bytes: Bytes) => unknown,
  sample: () => Bytes,
): void {
  for (let round = 0; round < ROUNDS; round++) {
    for (
      const bytes of [randomBytes(randomBelow(200)), damaged(sample())]
    ) {
      try {
        decode(bytes);
      } catch (error) {
        const isExpected = error instanceof RangeError ||
          error instanceof AddressError;
        assert(isExpected, `${bytes.toHex()}: ${error}`);
      }
    }
  }
}

/** Lengths and types are at the start of things, so that is where bits are flipped most. */
function damaged(bytes: Bytes): Bytes {
  const cut = bytes.slice(
    0,
    randomOf(bytes.length, randomBelow(bytes.length + 1)),
  );
  for (let flips = randomBelow(4); flips > 0 && cut.length > 0; flips--) {
    const at = randomBelow(cut.length);
    cut[at] = (cut[at] ?? 0) ^ 1 << randomBelow(8);
  }
  return cut;
}

/** Offset and size in bytes of the fields of a C struct. */
export type Layout = Readonly<Record<string, readonly [number, number]>>;

/** Sets all bits of a field: as the largest number, or as -1 if it is signed. */
function encodeOnes(
  encode: (fields: Record<string, number>) => Bytes,
  field: string,
  size: number,
): Bytes {
  try {
    return encode({ [field]: 2 ** (8 * size) - 1 });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return encode({ [field]: -1 });
  }
}

/** Asserts that fields lie where C has them, each tried by setting all its bits. */
export function assertLayout(
  encode: (fields: Record<string, number>) => Bytes,
  layout: Layout,
): void {
  const zero = encode({});
  const found = Object.entries(layout).map(([field, [, size]]) => {
    const ones = encodeOnes(encode, field, size);
    const changed = [...ones.keys()].filter((at) => ones[at] !== zero[at]);
    return [field, [changed[0] ?? -1, changed.length]];
  });
  assertEquals(Object.fromEntries(found), layout);
}
