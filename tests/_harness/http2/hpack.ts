/**
 * Headers as HTTP/2 packs them: all ways are read, one is written.
 *
 * Source: RFC 7541.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import { Http2Error } from "./http2_error.ts";
import { decodeHuffman } from "./huffman.ts";
import { type HeaderField, STATIC_TABLE } from "./static_table.ts";

/** How much the other end may have remembered, unless it is told otherwise. Source: RFC 9113 section 6.5.2. */
const TABLE_SIZE = 4096;

/** What a field in the table counts besides its text. Source: RFC 7541 section 4.1. */
const FIELD_OVERHEAD = 32;

/** Far more than any number means here. */
const LARGEST_INTEGER = 2 ** 32;

/** The bits of the first byte that tell the ways of a field apart. Source: RFC 7541 section 6. */
const INDEXED = 0x80;
const WITH_INDEXING = 0x40;
const TABLE_SIZE_UPDATE = 0x20;

/** The bit of the first byte of a text that says how it is written. */
const IS_HUFFMAN = 0x80;

/** Unpacks the headers of a connection; each block builds on those before. */
export class HpackDecoder {
  readonly #limit: number;
  /** What is remembered, the newest first. */
  #recent: HeaderField[] = [];
  #capacity: number;

  /**
   * Makes one that remembers nothing yet.
   *
   * @param limit How much it remembers at most, in bytes as RFC 7541 counts them
   */
  constructor(limit: number = TABLE_SIZE) {
    this.#limit = limit;
    this.#capacity = limit;
  }

  /** How much is remembered, in bytes as RFC 7541 counts them. */
  get size(): number {
    return this.#recent.reduce((sum, field) => sum + sizeOf(field), 0);
  }

  /** Decodes a block of headers. @throws {Http2Error} COMPRESSION_ERROR */
  decode(block: Bytes): HeaderField[] {
    const input = new BlockReader(block);
    const fields: HeaderField[] = [];
    while (!input.isAtEnd) {
      const field = this.#readField(input);
      if (field !== undefined) fields.push(field);
    }
    return fields;
  }

  #readField(input: BlockReader): HeaderField | undefined {
    const first = input.peek();
    if (first >= INDEXED) return this.#find(input.readInteger(7));
    if (first >= WITH_INDEXING) return this.#remember(this.#read(input, 6));
    if (first < TABLE_SIZE_UPDATE) return this.#read(input, 4);
    this.#resize(input.readInteger(5));
    return undefined;
  }

  /** Reads a field that is spelled out, but perhaps its name. */
  #read(input: BlockReader, bits: number): HeaderField {
    const index = input.readInteger(bits);
    const name = index === 0 ? input.readText() : this.#find(index)[0];
    return [name, input.readText()];
  }

  #find(index: number): HeaderField {
    const field = STATIC_TABLE[index - 1] ??
      this.#recent[index - 1 - STATIC_TABLE.length];
    if (field === undefined) throw malformed(`there is no number ${index}`);
    return field;
  }

  #remember(field: HeaderField): HeaderField {
    this.#recent.unshift(field);
    this.#forget();
    return field;
  }

  #resize(capacity: number): void {
    if (capacity > this.#limit) throw malformed(`${capacity} is too large`);
    this.#capacity = capacity;
    this.#forget();
  }

  #forget(): void {
    while (this.size > this.#capacity) this.#recent.pop();
  }
}

/** Encodes headers, all spelled out and none to be remembered. */
export function encodeHeaders(fields: Iterable<HeaderField>): Bytes {
  return concat(
    [...fields].flatMap(([name, value]) => [
      Uint8Array.of(0),
      ...encodeText(name),
      ...encodeText(value),
    ]),
  );
}

function encodeText(text: string): Bytes[] {
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return [encodeInteger(bytes.length, 7), bytes];
}

/**
 * Encodes a number that begins in the low bits of a byte, the others zero.
 *
 * Source: RFC 7541 section 5.1.
 */
export function encodeInteger(value: number, bits: number): Bytes {
  const largest = 2 ** bits - 1;
  if (value < largest) return Uint8Array.of(value);
  const bytes = [largest];
  let rest = value - largest;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) {
    bytes.push(rest % 0x80 + 0x80);
  }
  return Uint8Array.from([...bytes, rest]);
}

/** Reads a block from its beginning to its end. */
class BlockReader {
  readonly #block: Bytes;
  #at = 0;

  constructor(block: Bytes) {
    this.#block = block;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#block.length;
  }

  peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw malformed("they are cut off");
    return byte;
  }

  /** Reads a number that begins in the low bits of a byte. */
  readInteger(bits: number): number {
    const largest = 2 ** bits - 1;
    let value = this.#next() % 2 ** bits;
    if (value < largest) return value;
    for (let scale = 1;; scale *= 0x80) {
      const byte = this.#next();
      value += byte % 0x80 * scale;
      if (value > LARGEST_INTEGER) throw malformed("a number is too large");
      if (byte < 0x80) return value;
    }
  }

  readText(): string {
    const isHuffman = this.peek() >= IS_HUFFMAN;
    const length = this.readInteger(7);
    const end = this.#at + length;
    if (end > this.#block.length) throw malformed("they are cut off");
    const bytes = this.#block.subarray(this.#at, end);
    this.#at = end;
    return String.fromCharCode(...(isHuffman ? decodeHuffman(bytes) : bytes));
  }

  #next(): number {
    const byte = this.peek();
    this.#at++;
    return byte;
  }
}

function sizeOf([name, value]: HeaderField): number {
  return name.length + value.length + FIELD_OVERHEAD;
}

function malformed(problem: string): Http2Error {
  const message = `Cannot decode headers: ${problem}`;
  return new Http2Error("compressionError", message);
}
