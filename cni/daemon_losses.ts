/**
 * Keeps calls from waiting for a node daemon that does not answer, one after the
 * other.
 *
 * @module
 */

import { lossesFile, offFile } from "./daemon_socket.ts";
import { removeQuietly, writeAll } from "./files/io.ts";

/** So many losses in {@linkcode PERIOD_MS} turn the daemon off. */
const MAX_LOSSES = 10, PERIOD_MS = 60_000;

/** Greatest size of the file, in bytes; a line has 14. */
const MAX_BYTES = 4096;

/**
 * Records that a call has waited for the daemon at a socket in vain. The tenth
 * within a minute turns the daemon off, until it removes the file. A failure is
 * ignored: the call matters more.
 *
 * @param now Time in ms
 */
export async function recordLoss(
  socket: string,
  now: number = Date.now(),
): Promise<void> {
  try {
    const { openRegularFile } = await import("../ffi/regular_file.ts");
    const path = lossesFile(socket);
    append(openRegularFile(path), `${now}\n`);
    const isRecent = (time: number): boolean =>
      time > now - PERIOD_MS && time <= now;
    if (readTimes(path).filter(isRecent).length < MAX_LOSSES) return;
    openRegularFile(offFile(socket)).close();
  } catch {
    // Such as another user's directory.
  }
}

/** Calls that append at the same time lose nothing. */
function append(file: Deno.FsFile, line: string): void {
  using _file = file;
  writeAll(file, new TextEncoder().encode(line));
}

/** Removes a file that has become too large, and with it what is old. */
function readTimes(path: string): number[] {
  if (Deno.lstatSync(path).size > MAX_BYTES) {
    removeQuietly(path);
    return [];
  }
  return Deno.readTextFileSync(path).split("\n").map(Number);
}
