/**
 * Access to files, with uniform errors.
 *
 * @module
 */

import { checkChange } from "../../ffi/change_check.ts";
import { CniError, ErrorCode } from "../error.ts";

/**
 * Runs an action that reads or writes.
 *
 * @param action The action's name, such as `read "/x"`
 * @throws {CniError} 5 with the error of `run` as its cause
 */
export function withIoFailure<T>(action: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new CniError(ErrorCode.IoFailure, `Cannot ${action}`, {
      cause: error,
    });
  }
}

/**
 * Returns undefined if `run` fails because something does not exist.
 *
 * @throws Any other error of `run`
 */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Reports whether an error means that a path does not or cannot exist. */
function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    // The name is too long for a file. Deno has no error class for this.
    error instanceof Error && Reflect.get(error, "code") === "ENAMETOOLONG";
}

/**
 * Does the same as {@linkcode unlessMissing}, even if a directory on the path
 * is a file.
 */
export function unlessUnreachable<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isUnreachable(error)) return undefined;
    throw error;
  }
}

/** Reports whether a path is missing, or a directory on it is a file. */
export function isUnreachable(error: unknown): boolean {
  return isMissing(error) || error instanceof Deno.errors.NotADirectory;
}

/** Reports whether an error means that the file system is read-only. */
function isReadOnly(error: unknown): boolean {
  // Deno has no error class for this.
  return error instanceof Error && Reflect.get(error, "code") === "EROFS";
}

/**
 * Reports whether an error means that this process is not permitted to write, or that
 * the file system is read-only.
 */
export function isWritingRefused(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || isReadOnly(error);
}

/**
 * Returns undefined if `run` fails for any reason. For optional values, and where
 * another check reports the problem.
 */
export function ifPossible<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

/** Errors that mean that this process or the machine currently cannot read any file. */
const ANY_FILE = ["EMFILE", "ENFILE", "ENOMEM"];

/**
 * Reports whether an error concerns only the file that was read, for example on a
 * damaged disk, so that other files can still be read.
 */
export function isOfFile(error: unknown): boolean {
  return error instanceof Error &&
    !ANY_FILE.includes(String(Reflect.get(error, "code")));
}

/**
 * Reports whether a path leads to a file or a directory; false if that cannot be
 * determined. Too slow for every plugin call, because errors of Deno APIs take time.
 */
export function exists(path: string): boolean {
  return ifPossible(() => Deno.statSync(path)) !== undefined;
}

/** Reports whether a path leads to a directory; false if that cannot be determined. */
export function isDirectory(path: string): boolean {
  return ifPossible(() => Deno.statSync(path))?.isDirectory === true;
}

/** Does the same as {@linkcode exists}; true even for a dangling link. */
export function isTaken(path: string): boolean {
  return ifPossible(() => Deno.lstatSync(path)) !== undefined;
}

/**
 * Removes a file or an empty directory. Succeeds if it was already deleted.
 *
 * @throws {CniError} 5 if it cannot be removed
 */
export function removeIfThere(path: string): void {
  checkChange();
  withIoFailure(
    `remove "${path}"`,
    () => unlessMissing(() => Deno.removeSync(path)),
  );
}

/**
 * Removes a file or an empty directory if possible, and if the running call is still
 * permitted to change anything.
 */
export function removeQuietly(path: string): void {
  try {
    checkChange();
    Deno.removeSync(path);
  } catch {
    // It was deleted or is in use, or an earlier error is more important.
  }
}

/**
 * Removes, if possible, a file or directory that no other call uses, because this
 * call has not given it its final name yet.
 */
export function removeUnfinished(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It was deleted or is in use, or an earlier error is more important.
  }
}

/** Largest file that {@linkcode readFile} reads, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;

/** The content of a file, and the time of its last change. */
export interface FileContent {
  readonly bytes: Uint8Array;
  readonly changedAt: Date | null;
}

/**
 * Reads a file of at most 16 MiB, but no other kinds of files: a pipe would make the
 * reader wait, and a device such as `/dev/zero` never ends.
 *
 * @throws {Deno.errors.NotFound} If it does not exist
 * @throws {Error} If it is not a file, or too large
 */
export function readFile(path: string): Uint8Array {
  return readContent(path).bytes;
}

/** Reads a file like {@linkcode readFile}, and the time of its last change. */
export function readContent(path: string): FileContent {
  // Opening a pipe would already wait.
  checkIsFile(Deno.statSync(path));
  using file = Deno.openSync(path);
  const { size, mtime: changedAt } = checkIsFile(file.statSync());
  // The size of files that the kernel generates on reading, as in /proc, is 0.
  if (size === 0) return { bytes: Deno.readFileSync(path), changedAt };
  const bytes = new Uint8Array(size);
  let length = 0;
  while (length < size) {
    const read = file.readSync(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  return { bytes: bytes.subarray(0, length), changedAt };
}

function checkIsFile(info: Deno.FileInfo): Deno.FileInfo {
  if (!info.isFile) throw new Error("it is not a file");
  if (info.size <= MAX_BYTES) return info;
  throw new Error(`it has ${info.size} bytes; at most ${MAX_BYTES} are read`);
}

/** Reads the text of a file like {@linkcode readFile}. */
export function readTextFile(path: string): string {
  return new TextDecoder().decode(readFile(path));
}

/** Writes all of the bytes, at the file's position. */
export function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  let left = bytes;
  while (left.length > 0) left = left.subarray(file.writeSync(left));
}
