/**
 * Files of other processes in /proc. A process can make its command line, its
 * environment and its list of mounts arbitrarily long, so each reader has a limit.
 *
 * @module
 */

import { yieldToEventLoop } from "../deadline.ts";
import { ifPossible } from "../files/io.ts";

/** How much of a file is read by default, in bytes. */
const MOST_BYTES = 64 * 1024;

/**
 * Reads the beginning of a file in /proc. Returns "" if that is not possible.
 *
 * @param most The most bytes to read
 */
export function readStart(path: string, most: number = MOST_BYTES): string {
  return ifPossible(() => {
    using file = Deno.openSync(path);
    const bytes = bufferOf(most);
    let length = 0;
    while (length < most) {
      const read = file.readSync(bytes.subarray(length));
      if (read === null) break;
      length += read;
    }
    return new TextDecoder().decode(bytes.subarray(0, length));
  }) ?? "";
}

/**
 * Reads the lines of a file in /proc, and lets the event loop run. Reads none if that
 * is not possible.
 *
 * @param most The most bytes to read
 * @returns How many bytes were read; `most` if there are more
 */
export async function readLines(
  path: string,
  most: number,
  onLine: (line: string) => void,
): Promise<number> {
  using file = ifPossible(() => Deno.openSync(path));
  if (file === undefined) return 0;
  const decoder = new TextDecoder();
  let length = 0, rest = "";
  while (length < most) {
    const bytes = bufferOf(Math.min(MOST_BYTES, most - length));
    const read = ifPossible(() => file.readSync(bytes)) ?? null;
    if (read === null) break;
    length += read;
    const lines = (rest + decoder.decode(bytes.subarray(0, read), {
      stream: true,
    })).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(onLine);
    await yieldToEventLoop();
  }
  return length;
}

/**
 * Copies a part of a text. Otherwise the whole text stays in memory as long as the part.
 */
export function copyText(part: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(part));
}

/** Returns the beginning of the buffer, which the next reader reuses. */
function bufferOf(length: number): Uint8Array<ArrayBuffer> {
  if (buffer.length < length) buffer = new Uint8Array(length);
  return buffer.subarray(0, length);
}

let buffer = new Uint8Array(0);
