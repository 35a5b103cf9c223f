/**
 * The file with the process ID of a daemon.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import { ifPossible, removeQuietly, withIoFailure } from "../files/io.ts";
import { replaceGivenFile } from "../../ffi/file/given_file.ts";

/**
 * Writes this process's ID into a file.
 *
 * @param path Absolute path; "" for none
 * @throws {CniError} 5 if it cannot be written
 */
export function writePidFile(path: string): void {
  if (path === "") return;
  const action = `write pidfile "${path}"`;
  if (!path.startsWith("/")) {
    throw new CniError(
      ErrorCode.IoFailure,
      `Cannot ${action}: path not absolute`,
    );
  }
  const bytes = new TextEncoder().encode(`${Deno.pid}`);
  withIoFailure(action, () => replaceGivenFile(path, bytes));
}

/**
 * Removes this process's file. Leaves the file of a successor, which waits
 * until this process exits.
 */
export function removePidFile(path: string): void {
  if (readPidFile(path) === Deno.pid) removeQuietly(path);
}

/** Returns the process ID in a file; undefined without one. */
export function readPidFile(path: string): number | undefined {
  const text = ifPossible(() => Deno.readTextFileSync(path));
  return text === undefined ? undefined : Number(text);
}
