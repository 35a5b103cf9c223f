/**
 * Runs steps in order, once or repeatedly.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import { pause } from "../../../base/deadline.ts";
import type { Log } from "../../../base/log/log.ts";

/** A step that ensures one condition. */
export interface Step {
  /** The step's name in the log. */
  readonly name: string;
  /** Ensures the condition; changes nothing if it holds. */
  readonly ensure: () => void | Promise<void>;
}

/** Interval between retries without watching, in ms. */
const RETRY_MS = 500;

/** Steps that each depend on the previous ones. */
export class Steps {
  readonly #steps: readonly Step[];
  readonly #log: Log;
  readonly #done = new Set<Step>();
  /** The current problems, as they were logged. */
  readonly #problems = new Map<Step, string>();

  /** Runs nothing yet. */
  constructor(steps: readonly Step[], log: Log) {
    this.#steps = steps;
    this.#log = log;
  }

  /**
   * Runs all steps. After a failure it only continues if the failed step
   * succeeded earlier. Each problem is logged once.
   *
   * @returns Whether no problem is left
   */
  async run(): Promise<boolean> {
    for (const step of this.#steps) {
      try {
        await step.ensure();
        this.#done.add(step);
        this.#recover(step);
      } catch (error) {
        this.#tell(step, error);
        if (!this.#done.has(step)) break;
      }
    }
    return this.#problems.size === 0;
  }

  /**
   * Runs all steps once, and waits for missing things.
   *
   * @param timeoutMs Time limit for all steps
   * @throws {Error} On a failed step, a timeout, or the signal
   */
  async runOnce(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    for (const step of this.#steps) {
      while (!await this.#tryStep(step, endMs)) {
        await pause(RETRY_MS, signal);
        signal.throwIfAborted();
      }
    }
  }

  async #tryStep(step: Step, endMs: number): Promise<boolean> {
    try {
      await step.ensure();
      return true;
    } catch (error) {
      const isInTime = performance.now() < endMs;
      if (!(error instanceof NotYetError) || !isInTime) throw error;
      this.#tell(step, error);
      return false;
    }
  }

  #tell(step: Step, error: unknown): void {
    const reason = describeError(error);
    if (this.#problems.get(step) === reason) return;
    this.#problems.set(step, reason);
    const fields = { step: step.name, reason };
    if (error instanceof NotYetError) this.#log.info("waiting", fields);
    else this.#log.error("failed, will retry", fields);
  }

  #recover(step: Step): void {
    if (!this.#problems.delete(step)) return;
    this.#log.info("recovered", { step: step.name });
  }
}

/**
 * Something is missing that a node may get later, and that is worth waiting
 * for.
 */
export class NotYetError extends Error {}
