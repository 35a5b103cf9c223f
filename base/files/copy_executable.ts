/**
 * Copies executables, also over executables that are running.
 *
 * The copy gets its name by rename(2) when it is complete and closed: a running
 * executable cannot be written, and an executable that is being written cannot
 * be run ("text file busy").
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { removeQuietly } from "./io.ts";

/**
 * Copies an executable completely or not at all. The caller keeps others from
 * copying to the same path at the same time.
 *
 * @param onCopied Receives the path of the complete copy before it replaces
 *   `path`
 * @throws {Deno.errors.PermissionDenied} If it may not be written; other errors
 *   of the file system are thrown as they are
 */
export async function copyExecutable(
  source: string,
  path: string,
  onCopied: (copy: string) => void = () => {},
): Promise<void> {
  const temporary = nameUnfinished(path);
  try {
    removeQuietly(temporary);
    await Deno.copyFile(source, temporary);
    await Deno.chmod(temporary, 0o755);
    await flush(temporary);
    onCopied(temporary);
    await Deno.rename(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
}

/**
 * Returns the path of a copy until it is complete. A crash may leave it, for the next
 * copy to the same path.
 */
export function nameUnfinished(path: string): string {
  return join(dirname(path), `.${basename(path)}.unfinished`);
}

/** Flushes the content to disk before the rename. */
async function flush(path: string): Promise<void> {
  using file = await Deno.open(path, { read: true });
  await file.sync();
}
