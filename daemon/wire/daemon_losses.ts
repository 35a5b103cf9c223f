/**
 * Keeps calls from waiting for a node daemon that does not answer, one after the
 * other; and tells the daemon later which ones did not ask it.
 *
 * @module
 */

import { TAKE_MS } from "./call_format.ts";
import { lossesFile, offFile } from "./daemon_socket.ts";
import { removeQuietly, unlessMissing, writeAll } from "../../base/files/io.ts";

/** How long a loss is recent, in ms. */
export const LOSS_PERIOD_MS = 60_000;

/** Calls that have recently waited in vain for so long together turn the daemon off, in ms. */
const MAX_WAITED_MS = 10 * TAKE_MS;

/** Greatest size of the file, in bytes; a line has 19 at most. */
const MAX_BYTES = 4096;

/** Greatest size of the file of calls that did not ask the daemon, in bytes. */
const MAX_UNASKED_BYTES = 1024 * 1024;

/** An ADD or a DEL that its caller runs, since the daemon is turned off. */
export interface UnaskedCall {
  readonly command: string;
  readonly containerId: string;
  readonly ifName: string;
  /** The network's name. */
  readonly network: string;
}

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
 * quarter of {@linkcode TAKE_MS} is a quarter of a loss. A failure is ignored:
 * the call matters more.
 *
 * @param waitedMs How long it waited for `ready`
 * @param now Time in ms
 */
export async function recordLoss(
  socket: string,
  waitedMs: number = TAKE_MS,
  now: number = Date.now(),
): Promise<void> {
  try {
    const { openRegularFile } = await import("../../ffi/file/regular_file.ts");
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

/**
 * Records a call that does not ask the daemon at a socket, in the file that turns
 * the daemon off; nothing if the daemon has removed it. A failure is ignored.
 */
export async function recordUnasked(
  socket: string,
  { command, containerId, ifName, network }: UnaskedCall,
): Promise<void> {
  try {
    const { openRegularFile } = await import("../../ffi/file/regular_file.ts");
    const path = offFile(socket);
    // Larger than that, the daemon does not read it.
    const { size } = await Deno.lstat(path);
    if (size > MAX_UNASKED_BYTES) return;
    const line = JSON.stringify([command, containerId, ifName, network]);
    append(openRegularFile(path, { create: false }), `${line}\n`);
  } catch {
    // Such as a full disk.
  }
}

/**
 * Turns the daemon at a socket on again.
 *
 * @returns The calls that did not ask it meanwhile, in order; undefined if
 *   there may be others
 */
export function takeUnasked(socket: string): UnaskedCall[] | undefined {
  const path = offFile(socket);
  try {
    const info = unlessMissing(() => Deno.lstatSync(path));
    if (info === undefined) return [];
    using file = info.isFile ? Deno.openSync(path) : undefined;
    Deno.removeSync(path);
    // Whoever appends after this finds that the file is gone.
    const size = file?.statSync().size ?? Infinity;
    if (file === undefined || size > MAX_UNASKED_BYTES) return undefined;
    const bytes = new Uint8Array(size);
    if (size > 0 && file.readSync(bytes) !== size) return undefined;
    const lines = new TextDecoder().decode(bytes).split("\n");
    return lines.pop() === "" ? lines.map(parseUnasked) : undefined;
  } catch {
    return undefined;
  }
}

/** @throws {Error} If it is not such a line */
function parseUnasked(line: string): UnaskedCall {
  const [command, containerId, ifName, network] = JSON.parse(line);
  return { command, containerId, ifName, network };
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
