/**
 * Undoing the steps of an operation that fails half-way.
 *
 * @module
 */

import { describeError } from "./error.ts";
import type { Log } from "./log.ts";

/** How to undo one step. */
export type Undo = () => void | Promise<void>;

/**
 * A stack of undo steps that runs, last first, unless the operation commits.
 *
 * ```ts ignore
 * await using rollback = new Rollback(call.log);
 * const lease = await call.ipam.add();
 * rollback.onFailure("release the lease", () => call.ipam.del());
 * // ... more steps, each with its undo on the next line
 * rollback.commit();
 * ```
 *
 * Declare it after the resources that its undo steps use: it is disposed of
 * before them. An undo that fails is logged, and neither stops the others nor
 * hides the error that began it all.
 */
export class Rollback implements AsyncDisposable {
  readonly #log: Log;
  #steps: [label: string, undo: Undo][] = [];

  /**
   * Starts with nothing to undo.
   *
   * @param log Told of undo steps that fail
   */
  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Registers the undo of a step that has just succeeded.
   *
   * @param label What the undo does, as in "delete veth0"
   */
  onFailure(label: string, undo: Undo): void {
    this.#steps.push([label, undo]);
  }

  /** Keeps what was done. Call it last. */
  commit(): void {
    this.#steps = [];
  }

  /** Undoes what was not committed. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const [label, undo] of this.#steps.splice(0).reverse()) {
      try {
        await undo();
      } catch (error) {
        this.#log.error(`Cannot ${label}`, { error: describeError(error) });
      }
    }
  }
}

/**
 * Runs all steps of a tear-down, whatever fails, in order.
 *
 * @param steps What each step does, as in "release the lease", and how
 * @throws What the only failed step threw, or an AggregateError of several
 */
export async function tryAll(
  steps: Readonly<Record<string, Undo>>,
): Promise<void> {
  const failures: Error[] = [];
  for (const [label, step] of Object.entries(steps)) {
    try {
      await step();
    } catch (error) {
      failures.push(new Error(`Cannot ${label}`, { cause: error }));
    }
  }
  throwAll(failures, `${failures.length} steps failed`);
}

/**
 * Throws what was caught, if anything was.
 *
 * @param message What is said of several failures
 * @throws The only failure, or an AggregateError of several
 */
export function throwAll(failures: readonly unknown[], message: string): void {
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, message);
}
