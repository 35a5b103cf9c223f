/**
 * What failures of the file system mean, and how they are told.
 *
 * @module
 */

import { CniError, ErrorCode } from "./error.ts";

/**
 * Runs something that reads or writes.
 *
 * @param action What it does, as in `read "/x"`
 * @throws {CniError} 5, whatever `run` throws, with that as its cause
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
 * Answers undefined where `run` finds that something does not exist.
 *
 * @throws What `run` throws for any other reason
 */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Says whether an error is that there is no such path, or can be none. */
export function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    // Nothing can have such a name. Deno has no class for it.
    error instanceof Error && Reflect.get(error, "code") === "ENAMETOOLONG";
}

/**
 * Answers undefined where `run` fails, whatever the reason: for who does without
 * it as well, or leaves it to others to say what is wrong.
 */
export function ifPossible<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

/**
 * Removes a file, or an empty folder; it may be gone already.
 *
 * @throws {CniError} 5 if it cannot be removed
 */
export function removeIfThere(path: string): void {
  withIoFailure(
    `remove "${path}"`,
    () => unlessMissing(() => Deno.removeSync(path)),
  );
}

/** Removes a file, or an empty folder, if that can be done. */
export function removeQuietly(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It is gone, or in use, or the error that counts is the one before.
  }
}
