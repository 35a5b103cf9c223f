/**
 * Undoes the steps of a failed operation.
 *
 * @module
 */

import { describeError } from "./error.ts";
import type { Log } from "./log/log.ts";

/**
 * Time limit of the DEL that undoes an ADD, whose own time limit might have expired, in
 * ms.
 */
export const UNDO_MS = 30_000;

/** Undoes a step. */
export type Undo = () => void | Promise<void>;

/**
 * A stack of undo steps that runs, last first, unless the operation commits.
 *
 * ```ts ignore
 * await using rollback = new Rollback(call.log);
 * const lease = await call.ipam.add();
 * rollback.onFailureLast("release the lease", () => call.ipam.del());
 * // ... more steps, each with its undo on the next line
 * rollback.commit();
 * ```
 *
 * Declare it after the resources that its undo steps use, so that it is disposed of
 * first. A failed undo is logged; it neither stops the remaining undo steps nor hides
 * the original error.
 */
export class Rollback implements AsyncDisposable {
  readonly #log: Log;
  #steps: [label: string, undo: Undo][] = [];
  #last: [label: string, undo: Undo][] = [];

  /**
   * Starts with nothing to undo.
   *
   * @param log Receives undo steps that fail
   */
  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Registers the undo of a step that just succeeded.
   *
   * @param label The undo's action, such as "delete veth0"
   */
  onFailure(label: string, undo: Undo): void {
    this.#steps.push([label, undo]);
  }

  /**
   * Registers an undo that runs after all undo steps of `onFailure`, and only if none
   * of them fails. So an address stays leased, for DEL to release, while a link that
   * could not be deleted still uses it.
   *
   * @param label The undo's action, such as "release the lease"
   */
  onFailureLast(label: string, undo: Undo): void {
    this.#last.push([label, undo]);
  }

  /** Keeps all steps. Call it last. */
  commit(): void {
    this.#steps = [];
    this.#last = [];
  }

  /** Undoes all steps unless they were committed. */
  async [Symbol.asyncDispose](): Promise<void> {
    const steps = this.#steps.splice(0).reverse();
    const last = this.#last.splice(0).reverse();
    if (await this.#undoAll(steps)) await this.#undoAll(last);
  }

  /** Reports whether all undo steps have succeeded. */
  async #undoAll(
    steps: readonly (readonly [label: string, undo: Undo])[],
  ): Promise<boolean> {
    let isUndone = true;
    for (const [label, undo] of steps) {
      try {
        await undo();
      } catch (error) {
        isUndone = false;
        this.#log.error(`Cannot ${label}`, { error: describeError(error) });
      }
    }
    return isUndone;
  }
}

/**
 * A step: its action, such as "release the lease", and the function that runs it. It
 * is skipped, and left to a retry, if an earlier step that it needs failed or was
 * skipped.
 */
export type TearDownStep = readonly [
  label: string,
  run: Undo,
  needs?: TearDownStep,
];

/**
 * Runs all steps of a tear-down in order, even if some fail, except steps that need
 * a step that failed or was skipped.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function tryAll(
  steps: readonly TearDownStep[],
): Promise<void> {
  const failures: Error[] = [];
  /** The steps that failed or were skipped. */
  const unfinished = new Set<TearDownStep>();
  for (const step of steps) {
    const [label, run, needs] = step;
    if (needs !== undefined && unfinished.has(needs)) {
      unfinished.add(step);
      continue;
    }
    try {
      await run();
    } catch (error) {
      unfinished.add(step);
      failures.push(new Error(`Cannot ${label}`, { cause: error }));
    }
  }
  throwAll(failures, `${failures.length} steps failed`);
}

/**
 * Returns a function that runs a step and collects its failure.
 *
 * @returns The optional message becomes the failure's text, with the step's error as its
 *   cause
 */
export function attemptInto(
  failures: unknown[],
): <T>(run: () => T | Promise<T>, message?: string) => Promise<T | undefined> {
  return async (run, message) => {
    try {
      return await run();
    } catch (cause) {
      failures.push(
        message === undefined ? cause : new Error(message, { cause }),
      );
      return undefined;
    }
  };
}

/**
 * Throws caught errors, if any.
 *
 * @param message The message for several failures
 * @throws The only failure, or an AggregateError of several
 */
export function throwAll(failures: readonly unknown[], message: string): void {
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, message);
}
