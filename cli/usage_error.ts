/**
 * What is wrong with a command line.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";

/** A command line that cannot be understood: code 4, as for what the environment says. */
export class UsageError extends CniError {
  /** Whether all would be well if there were more of it. */
  readonly isIncomplete: boolean;

  /** Makes an error; the message says what is wrong and what would be right. */
  constructor(message: string, { isIncomplete = false } = {}) {
    super(ErrorCode.InvalidEnvironment, message);
    this.isIncomplete = isIncomplete;
  }
}
