/**
 * Copies executables, even over running executables.
 *
 * When the copy is complete and closed, rename(2) gives it its final name: a running
 * executable cannot be written, and an executable that is being written cannot be run
 * ("text file busy").
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { removeQuietly } from "./io.ts";

/**
 * Copies an executable completely or not at all. The caller must prevent concurrent
 * copies to the same path.
 *
 * @param onCopied Receives the path of the complete copy before it replaces
 *   `path`
 * @throws {Deno.errors.PermissionDenied} If this process is not permitted to write
 * it; other errors of the file system are thrown unchanged
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
 * Returns the path of an incomplete copy. After a crash, the next copy to the same
 * path overwrites it.
 */
export function nameUnfinished(path: string): string {
  return join(dirname(path), `.${basename(path)}.unfinished`);
}

/** Flushes the content to disk before the rename. */
async function flush(path: string): Promise<void> {
  using file = await Deno.open(path, { read: true });
  await file.sync();
}
