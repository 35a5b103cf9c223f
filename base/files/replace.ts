/**
 * Replaces files atomically: after a crash a file is complete or absent.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { checkChange } from "../../ffi/change_check.ts";
import { removeQuietly, removeUnfinished } from "./io.ts";
import { FileLock } from "./lock.ts";

/**
 * The directory of files that are being written. It is next to the target, because
 * rename(2) cannot cross file systems. It is a separate directory, because the Go
 * library reads all files that it finds, but skips directories.
 */
const UNFINISHED = ".unfinished";

/** Owner only, like files that `FileLock` creates. */
const PRIVATE = 0o600;

/** How often to retry when another writer has removed the directory. */
const TRIES = 100;

/**
 * Writes a file atomically, replacing an older one. Creates directories as
 * needed.
 *
 * @param mode Permission bits; 0600 by default
 * @throws {Deno.errors.PermissionDenied} If this process is not permitted to write
 * it; other errors of the file system are thrown unchanged
 */
export function replaceFile(
  path: string,
  bytes: Uint8Array,
  mode = PRIVATE,
): void {
  const directory = join(dirname(path), UNFINISHED);
  // Disposed of last, because its lock keeps other writers away.
  using temporary = openTemporary(directory);
  try {
    temporary.write(bytes);
    if (mode !== PRIVATE) Deno.chmodSync(temporary.path, mode);
    // Sync the content before the rename. Otherwise, a crash could leave an empty
    // file under the final name.
    temporary.sync();
    checkChange();
    rename(temporary.path, path);
  } catch (error) {
    removeUnfinished(temporary.path);
    throw error;
  } finally {
    removeUnfinished(directory);
  }
}

/** Renames a file; the error does not name the temporary file. */
function rename(from: string, to: string): void {
  try {
    Deno.renameSync(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.IsADirectory)) throw error;
    throw new Deno.errors.IsADirectory("Is a directory");
  }
}

/**
 * Opens the first file in the directory that is not being written. Reuses files from
 * before a crash, so their number never exceeds the number of simultaneous writers.
 */
function openTemporary(directory: string): FileLock {
  let tries = TRIES;
  for (let number = 0;; number++) {
    try {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      const path = join(directory, String(number));
      const file = FileLock.tryAcquire(path);
      if (file !== undefined) return file;
    } catch (error) {
      if (!isDirectoryGone(error) || tries-- === 0) throw error;
    }
  }
}

/**
 * Reports whether another writer has removed the directory: before a file was
 * opened in it, or during mkdir, which then sees a path that exists but is not
 * a directory.
 */
function isDirectoryGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.AlreadyExists;
}

/**
 * Keeps a file that is about to be replaced, under a different name. Creates the
 * directory if necessary. A link stays a link.
 *
 * @throws {Deno.errors.PermissionDenied} If this process is not permitted to write
 * it; other errors of the file system are thrown unchanged
 */
export function keepReplaced(path: string, kept: string): void {
  Deno.mkdirSync(dirname(kept), { recursive: true });
  removeQuietly(kept);
  try {
    Deno.linkSync(path, kept);
  } catch {
    // The file system has no hard links.
    if (Deno.lstatSync(path).isSymlink) {
      Deno.symlinkSync(Deno.readLinkSync(path), kept);
    } else {
      Deno.copyFileSync(path, kept);
    }
  }
}

/**
 * Replaces a file with a symbolic link; the name exists at all times. The caller must
 * prevent concurrent replacements.
 *
 * @throws {Deno.errors.PermissionDenied} If this process is not permitted to write
 * it; other errors of the file system are thrown unchanged
 */
export function replaceByLink(path: string, target: string): void {
  const temporary = `${path}.unfinished`;
  // A crash might have left it.
  removeQuietly(temporary);
  Deno.symlinkSync(target, temporary);
  try {
    Deno.renameSync(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
}
