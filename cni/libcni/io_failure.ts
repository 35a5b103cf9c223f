/**
 * What may go wrong with files.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";

/** Answers undefined where `run` finds that something does not exist. */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    // Nothing can have such a name.
    if (
      error instanceof Error && Reflect.get(error, "code") === "ENAMETOOLONG"
    ) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Says what could not be done to a file.
 *
 * @param action As in `Cannot <action>`
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
