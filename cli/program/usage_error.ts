/**
 * Errors in a command line.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";

/** An invalid command line: code 4, like an invalid environment. */
export class UsageError extends CniError {
  /** Whether only something is missing. */
  readonly isIncomplete: boolean;

  /** Creates an error. The message has the problem and the correct usage. */
  constructor(message: string, { isIncomplete = false } = {}) {
    super(ErrorCode.InvalidEnvironment, message);
    this.isIncomplete = isIncomplete;
  }
}

/** Returns the error for an invalid command line, which refers to the help. */
export function refuse(command: string, problem: string): UsageError {
  return new UsageError(
    `Cannot run "${command}": ${problem}; see ${command} --help`,
  );
}
