/**
 * Compares large files.
 *
 * @module
 */

import { sha256 } from "@noble/hashes/sha2.js";

/** Read size in bytes. */
const CHUNK_BYTES = 1 << 20;

/**
 * Reports whether two files have the same content.
 *
 * @returns False if the second file does not exist or is not a regular file
 * @throws {Deno.errors.NotFound} If the first file does not exist; any other read
 * error
 */
export async function haveSameContent(
  left: string,
  right: string,
): Promise<boolean> {
  const size = (await Deno.stat(left)).size;
  if (size !== await findFileSize(right)) return false;
  using one = await Deno.open(left);
  using other = await Deno.open(right);
  const buffers = [
    new Uint8Array(CHUNK_BYTES),
    new Uint8Array(CHUNK_BYTES),
  ] as const;
  for (;;) {
    const [chunk, twin] = await Promise.all([
      readChunk(one, buffers[0]),
      readChunk(other, buffers[1]),
    ]);
    if (!isEqual(chunk, twin)) return false;
    if (chunk.length < CHUNK_BYTES) return true;
  }
}

/**
 * Returns a digest of a file's content: files with the same digest have the same
 * content.
 *
 * @returns Undefined if the file does not exist or is not a regular file
 * @throws Any other read error
 */
export async function digestContent(path: string): Promise<string | undefined> {
  if (await findFileSize(path) === undefined) return undefined;
  using file = await Deno.open(path);
  const buffer = new Uint8Array(CHUNK_BYTES);
  const hash = sha256.create();
  for (;;) {
    const chunk = await readChunk(file, buffer);
    hash.update(chunk);
    if (chunk.length < CHUNK_BYTES) return `sha256:${hash.digest().toHex()}`;
  }
}

async function findFileSize(path: string): Promise<number | undefined> {
  try {
    const { isFile, size } = await Deno.stat(path);
    return isFile ? size : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Fills a buffer as far as there is data. */
async function readChunk(
  file: Deno.FsFile,
  buffer: Uint8Array,
): Promise<Uint8Array> {
  let length = 0;
  while (length < buffer.length) {
    const read = await file.read(buffer.subarray(length));
    if (read === null) break;
    length += read;
  }
  return buffer.subarray(0, length);
}

/** Compares 32-bit words, four times faster than bytes. Both start at offset 0. */
function isEqual(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  const length = left.length >> 2;
  const [words, twins] = [left, right]
    .map(({ buffer }) => new Int32Array(buffer, 0, length));
  for (let at = 0; at < length; at++) {
    if (words?.[at] !== twins?.[at]) return false;
  }
  const rest = left.subarray(length * 4), twin = right.subarray(length * 4);
  return rest.every((byte, at) => byte === twin[at]);
}
