/**
 * Errors in a command line.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";

/** An invalid command line: code 4, like an invalid environment. */
export class UsageError extends CniError {
  /** Creates an error. The message contains the problem and the correct usage. */
  constructor(message: string) {
    super(ErrorCode.InvalidEnvironment, message);
  }
}

/** Returns the error for an invalid command line, which refers to the help. */
export function refuse(command: string, problem: string): UsageError {
  return new UsageError(
    `Cannot run "${command}": ${problem}; see ${command} --help`,
  );
}
