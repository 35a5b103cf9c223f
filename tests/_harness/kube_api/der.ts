/**
 * The few ASN.1 values that a certificate has, encoded by the distinguished
 * rules. Source: ITU-T X.690.
 *
 * @module
 */

/** Encodes a SEQUENCE of encoded values. */
export function sequence(...parts: readonly Uint8Array[]): Uint8Array {
  return encode(0x30, ...parts);
}

/** Encodes a SET of encoded values. */
export function set(...parts: readonly Uint8Array[]): Uint8Array {
  return encode(0x31, ...parts);
}

/** Encodes a positive INTEGER of big-endian bytes. */
export function integer(bytes: Uint8Array): Uint8Array {
  const start = bytes.findIndex((byte) => byte !== 0);
  const digits = start < 0 ? Uint8Array.of(0) : bytes.subarray(start);
  // A first bit that is set would make it negative.
  const isNegative = (digits[0] ?? 0) > 0x7f;
  return encode(0x02, Uint8Array.from(isNegative ? [0] : []), digits);
}

/** Encodes a BOOLEAN. */
export function boolean(value: boolean): Uint8Array {
  return encode(0x01, Uint8Array.of(value ? 0xff : 0));
}

/** Encodes an OBJECT IDENTIFIER, as `2.5.4.3`. */
export function oid(text: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const arcs = rest.flatMap(base128);
  return encode(0x06, Uint8Array.of(first * 40 + second, ...arcs));
}

/** Encodes a UTF8String. */
export function utf8(text: string): Uint8Array {
  return encode(0x0c, new TextEncoder().encode(text));
}

/** Encodes a BIT STRING. @param unused How many bits of the last byte do not count */
export function bitString(bytes: Uint8Array, unused = 0): Uint8Array {
  return encode(0x03, Uint8Array.of(unused), bytes);
}

/** Encodes an OCTET STRING. */
export function octetString(bytes: Uint8Array): Uint8Array {
  return encode(0x04, bytes);
}

/** Encodes a time before 2050, in ms since 1970, as UTCTime. */
export function time(ms: number): Uint8Array {
  const digits = new Date(ms).toISOString().replace(/\.\d+|\D/g, "");
  return encode(0x17, new TextEncoder().encode(`${digits.slice(2)}Z`));
}

/** Encodes `[tag] EXPLICIT` of an encoded value. */
export function explicit(tag: number, value: Uint8Array): Uint8Array {
  return encode(0xa0 | tag, value);
}

/** Encodes `[tag] IMPLICIT` of a primitive type's bytes. */
export function implicit(tag: number, bytes: Uint8Array): Uint8Array {
  return encode(0x80 | tag, bytes);
}

function encode(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const content = parts.flatMap((part) => [...part]);
  return Uint8Array.from([tag, ...encodeLength(content.length), ...content]);
}

function encodeLength(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>= 8) bytes.unshift(rest & 0xff);
  return [0x80 | bytes.length, ...bytes];
}

function base128(value: number): number[] {
  const digits = [value % 0x80];
  for (let rest = value >> 7; rest > 0; rest >>= 7) {
    digits.unshift(0x80 | rest % 0x80);
  }
  return digits;
}
