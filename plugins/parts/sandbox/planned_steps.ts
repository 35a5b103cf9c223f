/**
 * Changes of a sandbox that are planned before the first change, and undone if a
 * change fails.
 *
 * @module
 */

import { isErrno } from "../../../ffi/errno.ts";

/** A change in a namespace, and its undo. */
export interface PlannedStep {
  /** The action, such as `add rule ...`. */
  readonly action: string;
  readonly work: () => void;
  /** Undoes the step, even if it was not carried out. */
  readonly undo: () => void;
}

/**
 * Undoes steps, last first, and continues after failures.
 *
 * @param begun All steps that might have taken effect, including failed steps
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
