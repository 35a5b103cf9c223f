/**
 * How failures of the file system are told.
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
