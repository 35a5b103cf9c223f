/**
 * Changes of a sandbox that are planned before the first one is made, and undone if one
 * fails.
 *
 * @module
 */

import { isErrno } from "../../../ffi/errno.ts";

/** A change in a namespace, and its undo. */
export interface PlannedStep {
  /** Such as `add rule ...`. */
  readonly action: string;
  readonly work: () => void;
  /** Undoes the step, even if it was not taken. */
  readonly undo: () => void;
}

/**
 * Undoes steps, last first, and continues after failures.
 *
 * @param begun All steps that may have taken effect, failed ones included
 * @returns The failures
 */
export function undoAll(begun: readonly PlannedStep[]): Error[] {
  return begun.toReversed().flatMap(({ action, undo }) => {
    try {
      undo();
      return [];
    } catch (cause) {
      return isDoneAlready(cause)
        ? []
        : [new Error(`Cannot undo: ${action}`, { cause })];
    }
  });
}

/**
 * Reports whether an addition failed because the object exists, or a deletion
 * because it does not.
 */
export function isDoneAlready(error: unknown): boolean {
  return isErrno(error, "EEXIST", "ESRCH", "ENOENT");
}
