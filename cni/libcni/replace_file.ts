/**
 * Writing a file so that it is there whole or not at all, whatever crashes.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { removeQuietly } from "../io_failure.ts";
import { LockFile } from "./lock_file.ts";

/**
 * Where a file is until it is complete: beside the others, for a rename must
 * not leave the file system; in a folder of its own, for the Go library reads
 * all files that it finds, and skips folders.
 */
const UNFINISHED = ".unfinished";

/** For the owner alone, as files are that `LockFile` makes. */
const PRIVATE = 0o600;

/** How often a file is begun again whose folder another writer has removed. */
const TRIES = 100;

/**
 * Writes a file in place of an older one, or not at all. Folders are made as
 * needed.
 *
 * @param mode Who may read and write it; its owner alone by default
 * @throws {Deno.errors.PermissionDenied} If it may not be written, and whatever
 *   else the file system has against it
 */
export function replaceFile(
  path: string,
  bytes: Uint8Array,
  mode = PRIVATE,
): void {
  const folder = join(dirname(path), UNFINISHED);
  // Closed last: the lock on it keeps other writers away.
  using unfinished = openUnfinished(folder);
  try {
    unfinished.write(bytes);
    if (mode !== PRIVATE) Deno.chmodSync(unfinished.path, mode);
    // The content must be on disk before the name is, or a crash leaves the
    // name without it.
    unfinished.file.syncDataSync();
    Deno.renameSync(unfinished.path, path);
  } catch (error) {
    removeQuietly(unfinished.path);
    throw error;
  } finally {
    removeQuietly(folder);
  }
}

/**
 * Opens the first file in the folder that nobody writes. One that was left by
 * a crash is used again, so that there are never more of them than there were
 * writers at one time.
 */
function openUnfinished(folder: string): LockFile {
  let tries = TRIES;
  for (let number = 0;; number++) {
    try {
      Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
      const path = join(folder, String(number));
      const file = LockFile.tryOpen(path, { exclusive: true });
      if (file !== undefined) return file;
    } catch (error) {
      if (!isFolderGone(error) || tries-- === 0) throw error;
    }
  }
}

/**
 * Says whether another writer has removed the folder: before a file was opened
 * in it, or while it was made, where what was there at first is then no folder.
 */
function isFolderGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.AlreadyExists;
}
