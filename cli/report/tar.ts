/**
 * Archives of texts, as `tar` reads them.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";

const BLOCK = 512;
/** Longest name and prefix. Source: POSIX pax, ustar interchange format. */
const NAME_BYTES = 100, PREFIX_BYTES = 155;

const encoder = new TextEncoder();

/**
 * Builds a compressed archive.
 *
 * @param files Contents by path, of at most 255 bytes
 * @param mtime Seconds since 1970
 */
export async function makeTarGz(
  files: ReadonlyMap<string, string>,
  mtime: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts = [...files].flatMap(([path, text]) => {
    const bytes = encoder.encode(text);
    const padding = new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK);
    return [encodeHeader(path, bytes.length, mtime), bytes, padding];
  });
  const archive = concat([...parts, new Uint8Array(2 * BLOCK)]);
  const stream = new Blob([archive]).stream()
    .pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Source: POSIX pax, ustar interchange format. */
function encodeHeader(
  path: string,
  size: number,
  mtime: number,
): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(BLOCK);
  const put = (offset: number, text: string): void =>
    header.set(encoder.encode(text), offset);
  const octal = (value: number, digits: number): string =>
    `${value.toString(8).padStart(digits, "0")}\0`;
  const { name, prefix } = splitPath(path);
  put(0, name);
  put(100, octal(0o600, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(size, 11));
  put(136, octal(mtime, 11));
  put(148, " ".repeat(8));
  put(156, "0");
  put(257, "ustar\x0000");
  put(345, prefix);
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)} `);
  return header;
}

/**
 * Splits a path at a slash, as long paths need it.
 *
 * @throws {RangeError} If it is too long
 */
function splitPath(path: string): { name: string; prefix: string } {
  const lengthOf = (text: string): number => encoder.encode(text).length;
  if (lengthOf(path) <= NAME_BYTES) return { name: path, prefix: "" };
  for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (lengthOf(name) <= NAME_BYTES && lengthOf(prefix) <= PREFIX_BYTES) {
      return { name, prefix };
    }
  }
  throw new RangeError(`Cannot archive "${path}": the path is too long`);
}
