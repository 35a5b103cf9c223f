/**
 * The Huffman code of the headers of HTTP/2.
 *
 * Source: RFC 7541 section 5.2 and appendix B.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { Http2Error } from "./http2_error.ts";

/**
 * How many bits the codes of all bytes have, and that of the end: for each a
 * digit of base 36. The code is canonical, so this tells all of it.
 */
const LENGTHS =
  "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6ca" +
  "d67777777777777777777777878djde6f56565666577666567655677777fbeds" +
  "kmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn" +
  "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq" +
  "u";

/** The longest code, in bits. */
const LONGEST = 30;

/** What follows the bytes. It is never sent, but its beginning fills the last byte. */
const END = 256;

/** What each code stands for. A code has a 1 before it, which keeps its zeros. */
const SYMBOLS = listSymbols();

/**
 * Decodes text.
 *
 * @throws {Http2Error} COMPRESSION_ERROR if it does not end where it should
 */
export function decodeHuffman(bytes: Bytes): Bytes {
  const symbols: number[] = [];
  let code = 1;
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + (byte >> bit & 1);
      const symbol = SYMBOLS.get(code);
      if (symbol === undefined) continue;
      if (symbol === END) throw malformed("it has an end within");
      symbols.push(symbol);
      code = 1;
    }
  }
  if (!isPadding(code)) throw malformed("it is cut off");
  return Uint8Array.from(symbols);
}

/** Says whether what is left is less than a byte, and all ones. */
function isPadding(code: number): boolean {
  return code <= 0xff && (code & (code + 1)) === 0;
}

function listSymbols(): Map<number, number> {
  const symbols = new Map<number, number>();
  let code = 1;
  for (let length = 1; length <= LONGEST; length++) {
    code *= 2;
    for (const [symbol, digit] of [...LENGTHS].entries()) {
      if (Number.parseInt(digit, 36) === length) symbols.set(code++, symbol);
    }
  }
  return symbols;
}

function malformed(problem: string): Http2Error {
  const message = `Cannot decode a text of Huffman's code: ${problem}`;
  return new Http2Error("compressionError", message);
}
