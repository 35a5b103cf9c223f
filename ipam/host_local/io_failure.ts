/**
 * How failures of the file system are told: as code 5, or not at all where
 * nothing being there is as good.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";

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

/** Answers undefined where `run` finds that something does not exist. */
export function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Says whether there is no such path, or can be none: ENAMETOOLONG has no class. */
function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory ||
    error instanceof Error && error.message.includes("(os error 36)");
}
