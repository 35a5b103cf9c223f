/**
 * Outcomes of the attempts to release or delete objects.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";

/** An object after the attempt to release or delete it. */
export interface Released<T> {
  readonly what: T;
  /** Why it is kept; undefined if it is released. */
  readonly problem?: string;
}

/** Runs an attempt. A failure is part of the outcome. */
export async function attempt<T>(
  what: T,
  run: () => Promise<void>,
): Promise<Released<T>> {
  try {
    await run();
    return { what };
  } catch (error) {
    return { what, problem: describeError(error) };
  }
}
