/**
 * Networks that are asked for and cannot be had.
 *
 * @module
 */

import { CniError, toCniError } from "../../../cni/error.ts";

/** A NetworkAttachmentDefinition that the API does not answer with. */
export class MissingNetworkError extends CniError {
  /** What a NoNetworkFound event shall say. */
  readonly eventMessage: string;

  /**
   * Makes an error.
   *
   * @param code 7 if there is no such network, 11 if the API could not tell
   * @param message With what was being done
   * @param eventMessage Without
   */
  constructor(code: number, message: string, eventMessage: string) {
    super(code, message);
    this.eventMessage = eventMessage;
  }
}

/** Makes an error say what was being done, and stay of its kind. */
export function inContext(context: string, error: unknown): CniError {
  const { code, message, details } = toCniError(error);
  const text = `${context}: ${message}`;
  return error instanceof MissingNetworkError
    ? new MissingNetworkError(code, text, error.eventMessage)
    : new CniError(code, text, { details });
}
