/**
 * Timeouts of calls that waited for a node daemon. Many of them turn the daemon off:
 * callers then run their calls locally, and record them for the daemon.
 *
 * @module
 */

import { TAKE_MS } from "./call_format.ts";
import { offFile, timeoutsFile } from "./daemon_socket.ts";
import { removeQuietly, unlessMissing, writeAll } from "../../base/files/io.ts";

/** How long a timeout is recent, in ms. */
export const TIMEOUT_PERIOD_MS = 60_000;

/** Total wait of recent timeouts that turns the daemon off, in ms. */
const MAX_WAITED_MS = 10 * TAKE_MS;

/** Greatest size of the file, in bytes; a line has 19 at most. */
const MAX_BYTES = 4096;

/** Greatest size of the file of local calls, in bytes. */
const MAX_LOCAL_CALLS_BYTES = 1024 * 1024;

/** An ADD or a DEL that its caller runs locally while the daemon is turned off. */
export interface LocalCall {
  readonly command: string;
  readonly containerId: string;
  readonly ifName: string;
  /** The network's name. */
  readonly network: string;
}

/** Reports whether a call has recently timed out, if there is the file of timeouts. */
export function hasRecentTimeout(socket: string): boolean {
  try {
    const { mtime } = Deno.statSync(timeoutsFile(socket));
    return mtime !== null && isRecent(mtime.getTime(), Date.now());
  } catch {
    return false; // The daemon has just removed it.
  }
}

function isRecent(time: number, now: number): boolean {
  return time > now - TIMEOUT_PERIOD_MS && time <= now;
}

/**
 * Records that a call has timed out waiting for the daemon at a socket. The tenth
 * within a minute turns the daemon off, until it removes the file; a wait of a
 * quarter of {@linkcode TAKE_MS} counts as a quarter. A failure is ignored:
 * the call matters more.
 *
 * @param waitedMs How long it waited for `taken`
 * @param now Time in ms
 */
export async function recordTimeout(
  socket: string,
  waitedMs: number = TAKE_MS,
  now: number = Date.now(),
): Promise<void> {
  try {
    const { openRegularFile } = await import("../../ffi/file/regular_file.ts");
    const path = timeoutsFile(socket);
    append(openRegularFile(path), `${now} ${waitedMs}\n`);
    const waited = readOrReset(path)
      .map(([time, ms]) => isRecent(time, now) ? ms : 0);
    if (waited.reduce((sum, ms) => sum + ms, 0) < MAX_WAITED_MS) return;
    openRegularFile(offFile(socket)).close();
  } catch {
    // Such as another user's directory.
  }
}

/**
 * Records a local call in the file that turns the daemon off; does nothing if the daemon
 * has removed the file. A failure is ignored.
 */
export async function recordLocalCall(
  socket: string,
  { command, containerId, ifName, network }: LocalCall,
): Promise<void> {
  try {
    const { openRegularFile } = await import("../../ffi/file/regular_file.ts");
    const path = offFile(socket);
    // The daemon does not read a larger file.
    const { size } = await Deno.lstat(path);
    if (size > MAX_LOCAL_CALLS_BYTES) return;
    const line = JSON.stringify([command, containerId, ifName, network]);
    append(openRegularFile(path, { create: false }), `${line}\n`);
  } catch {
    // Such as a full disk.
  }
}

/**
 * Turns the daemon at a socket on again.
 *
 * @returns The local calls since it was turned off, in order; undefined if they are not
 *   all known
 */
export function takeLocalCalls(socket: string): LocalCall[] | undefined {
  const path = offFile(socket);
  try {
    const info = unlessMissing(() => Deno.lstatSync(path));
    if (info === undefined) return [];
    using file = info.isFile ? Deno.openSync(path) : undefined;
    Deno.removeSync(path);
    // A process that appends after this finds that the file was deleted.
    const size = file?.statSync().size ?? Infinity;
    if (file === undefined || size > MAX_LOCAL_CALLS_BYTES) return undefined;
    const bytes = new Uint8Array(size);
    if (size > 0 && file.readSync(bytes) !== size) return undefined;
    const lines = new TextDecoder().decode(bytes).split("\n");
    return lines.pop() === "" ? lines.map(parseLocalCall) : undefined;
  } catch {
    return undefined;
  }
}

/** @throws {Error} If the line is malformed */
function parseLocalCall(line: string): LocalCall {
  const [command, containerId, ifName, network] = JSON.parse(line);
  return { command, containerId, ifName, network };
}

/** Appends a line, without loss if several processes append at the same time. */
function append(file: Deno.FsFile, line: string): void {
  using _file = file;
  writeAll(file, new TextEncoder().encode(line));
}

/** Reads the timeouts. A file that has become too large is removed, with its old lines. */
function readOrReset(path: string): [time: number, waitedMs: number][] {
  if (Deno.lstatSync(path).size > MAX_BYTES) {
    removeQuietly(path);
    return [];
  }
  return Deno.readTextFileSync(path).split("\n").map((line) => {
    const [time = 0, waitedMs = 0] = line.split(" ").map(Number);
    return [time, waitedMs];
  });
}
