/**
 * Machine code that is kept as text: its bytes in hexadecimal digits, each line with
 * its address before and what it does behind.
 *
 * @module
 */

/** Facts about an executable that its machine code reads behind itself. */
export interface Facts {
  /** Numbers of 64 bits; places are counted from the first instruction. */
  readonly numbers: readonly number[];
  /** ASCII texts: each with the bytes that it has room for, and NULs up to there. */
  readonly texts: readonly (readonly [text: string, room: number])[];
}

/** A line: an address, bytes and two spaces or the end. */
const LINE = /^[0-9a-f]{4} {2}((?:[0-9a-f]{2} )*[0-9a-f]{2})(?: {2}|$)/;

/**
 * Reads machine code.
 *
 * @throws {Error} If the text has none
 */
export function parseObject(text: string): Uint8Array<ArrayBuffer> {
  const bytes = text.split("\n").flatMap((line) =>
    (LINE.exec(line)?.[1]?.split(" ") ?? []).map((digits) =>
      Number.parseInt(digits, 16)
    )
  );
  if (bytes.length === 0) throw new Error("Cannot read machine code: no bytes");
  return Uint8Array.from(bytes);
}

/** Reads the machine code in a file. */
export function readObject(file: URL): Uint8Array<ArrayBuffer> {
  return parseObject(Deno.readTextFileSync(file));
}

/**
 * Returns machine code with facts behind it.
 *
 * @throws {Error} If a text is too long
 */
export function withFacts(
  code: Uint8Array,
  { numbers, texts }: Facts,
): Uint8Array<ArrayBuffer> {
  const words = new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
  const rooms = texts.map(([text, room]) => {
    const bytes = new Uint8Array(room);
    if (text.length >= room) {
      throw new Error(
        `Cannot keep "${text}": expected fewer than ${room} bytes`,
      );
    }
    new TextEncoder().encodeInto(text, bytes);
    return bytes;
  });
  const parts = [code, words, ...rooms];
  const result = new Uint8Array(
    parts.reduce((sum, { length }) => sum + length, 0),
  );
  let at = 0;
  for (const part of parts) {
    result.set(part, at);
    at += part.length;
  }
  return result;
}
