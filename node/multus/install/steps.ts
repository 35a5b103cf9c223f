/**
 * What is to be done, in its order, again and again.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { pause } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import { NotYetError } from "./not_yet_error.ts";

/** Something that shall be so. */
export interface Step {
  /** What log lines call it. */
  readonly name: string;
  /** Sees to it that it is so; changes nothing if it is. */
  readonly ensure: () => void | Promise<void>;
}

/** How often it is tried again without watching, in ms. */
const RETRY_MS = 500;

/** Steps, of which the later ones need the earlier ones. */
export class Steps {
  readonly #steps: readonly Step[];
  readonly #log: Log;
  readonly #done = new Set<Step>();
  /** What is wrong now, as it was told. */
  readonly #problems = new Map<Step, string>();

  /** Nothing is done yet. */
  constructor(steps: readonly Step[], log: Log) {
    this.#steps = steps;
    this.#log = log;
  }

  /**
   * Takes all steps; those behind one that fails only if that has been done
   * before. What is wrong is logged once, not each time.
   *
   * @returns Whether all is well
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
   * Takes all steps once; waits for what is not there yet.
   *
   * @param timeoutMs How long it may take
   * @throws {Error} If a step fails, time is up, or the signal comes
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
    else this.#log.error("failed, and will be tried again", fields);
  }

  #recover(step: Step): void {
    if (!this.#problems.delete(step)) return;
    this.#log.info("all is well again", { step: step.name });
  }
}
