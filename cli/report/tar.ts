/**
 * Archives of texts, as `tar` reads them.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Source: POSIX pax, ustar interchange format. */
const BLOCK = 512, NAME_BYTES = 100;
/** The largest value of 11 octal digits: 8 GiB minus 1. */
const MOST = 8 ** 11 - 1;
/** Types of entries: a file, and records that replace fields of the next header. */
const FILE = "0", EXTENDED = "x";
/** Longest name of a file. Source: include/uapi/linux/limits.h `NAME_MAX`. */
const NAME_MAX = 255;

const encoder = new TextEncoder();

/** The attributes of a file in a header. */
interface Fields {
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Seconds since 1970. */
  readonly mtime: number;
}

/** Reports whether a file system can have the path when the archive is extracted. */
export function isExtractable(path: string): boolean {
  return !path.includes("\0") &&
    path.split("/").every((name) => encoder.encode(name).length <= NAME_MAX);
}

/**
 * Builds a compressed archive. What a header has no room for, such as a long path,
 * is in a pax header, which GNU tar and bsdtar read.
 *
 * @param files Contents by path
 * @param mtime Seconds since 1970
 */
export async function makeTarGz(
  files: ReadonlyMap<string, string>,
  mtime: number,
): Promise<Bytes> {
  const parts = [...files].flatMap(([path, text]) => {
    const bytes = encoder.encode(text);
    return [
      ...encodeHeaders({ path, size: bytes.length, mtime }),
      ...encodeContent(bytes),
    ];
  });
  const archive = concat([...parts, new Uint8Array(2 * BLOCK)]);
  const stream = new Blob([archive]).stream()
    .pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Encodes what precedes the content of a file. */
export function encodeHeaders(fields: Fields): Bytes[] {
  const { path, size, mtime } = fields;
  const records = encoder.encode([
    isName(path) ? "" : encodeRecord("path", path),
    isOctal(size) ? "" : encodeRecord("size", String(size)),
    isOctal(mtime) ? "" : encodeRecord("mtime", String(mtime)),
  ].join(""));
  const header = encodeHeader(FILE, fields);
  if (records.length === 0) return [header];
  const extended = { path: "pax", size: records.length, mtime };
  return [
    encodeHeader(EXTENDED, extended),
    ...encodeContent(records),
    header,
  ];
}

/** Encodes a content, up to the end of its last block. */
function encodeContent(bytes: Bytes): Bytes[] {
  return [bytes, new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK)];
}

function isName(path: string): boolean {
  // The encoding of other characters is not defined.
  return path.length <= NAME_BYTES && /^[\x20-\x7e]*$/.test(path);
}

function isOctal(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MOST;
}

/** Encodes a record `LENGTH KEY=VALUE`, of which the length is a part. */
function encodeRecord(key: string, value: string): string {
  const rest = encoder.encode(` ${key}=${value}\n`).length;
  let length = rest;
  while (length !== rest + String(length).length) {
    length = rest + String(length).length;
  }
  return `${length} ${key}=${value}\n`;
}

/** Source: POSIX pax, ustar interchange format. */
function encodeHeader(type: string, { path, size, mtime }: Fields): Bytes {
  const header = new Uint8Array(BLOCK);
  const put = (offset: number, text: string): void =>
    header.set(encoder.encode(text), offset);
  const octal = (value: number, digits: number): string =>
    `${value.toString(8).padStart(digits, "0")}\0`;
  header.set(encoder.encode(path).subarray(0, NAME_BYTES));
  put(100, octal(0o600, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(isOctal(size) ? size : 0, 11));
  put(136, octal(isOctal(mtime) ? mtime : 0, 11));
  put(148, " ".repeat(8));
  put(156, type);
  put(257, "ustar\x0000");
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)} `);
  return header;
}
