/**
 * Keeps calls from waiting for a node daemon that does not answer, one after the
 * other.
 *
 * @module
 */

import { READY_MS } from "./call_format.ts";
import { lossesFile, offFile } from "./daemon_socket.ts";
import { removeQuietly, writeAll } from "./files/io.ts";

/** How long a loss is recent, in ms. */
export const LOSS_PERIOD_MS = 60_000;

/** Calls that have recently waited in vain for so long together turn the daemon off, in ms. */
const MAX_WAITED_MS = 10 * READY_MS;

/** Greatest size of the file, in bytes; a line has 19 at most. */
const MAX_BYTES = 4096;

/** Reports whether a call has recently waited in vain, if there is the file of losses. */
export function hasRecentLoss(socket: string): boolean {
  try {
    const { mtime } = Deno.statSync(lossesFile(socket));
    return mtime !== null && isRecent(mtime.getTime(), Date.now());
  } catch {
    return false; // The daemon has just removed it.
  }
}

function isRecent(time: number, now: number): boolean {
  return time > now - LOSS_PERIOD_MS && time <= now;
}

/**
 * Records that a call has waited for the daemon at a socket in vain. The tenth
 * within a minute turns the daemon off, until it removes the file; a wait of a
 * quarter of {@linkcode READY_MS} is a quarter of a loss. A failure is ignored:
 * the call matters more.
 *
 * @param waitedMs How long it waited for `ready`
 * @param now Time in ms
 */
export async function recordLoss(
  socket: string,
  waitedMs: number = READY_MS,
  now: number = Date.now(),
): Promise<void> {
  try {
    const { openRegularFile } = await import("../ffi/regular_file.ts");
    const path = lossesFile(socket);
    append(openRegularFile(path), `${now} ${waitedMs}\n`);
    const waited = readLosses(path)
      .map(([time, ms]) => isRecent(time, now) ? ms : 0);
    if (waited.reduce((sum, ms) => sum + ms, 0) < MAX_WAITED_MS) return;
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
function readLosses(path: string): [time: number, waitedMs: number][] {
  if (Deno.lstatSync(path).size > MAX_BYTES) {
    removeQuietly(path);
    return [];
  }
  return Deno.readTextFileSync(path).split("\n").map((line) => {
    const [time = 0, waitedMs = 0] = line.split(" ").map(Number);
    return [time, waitedMs];
  });
}
