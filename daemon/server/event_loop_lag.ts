/**
 * Measures how long the daemon's event loop was blocked: its process was stopped or
 * starved, or a step took long.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";

/** Adds up how late pauses end. */
export class EventLoopLag {
  #ms = 0;

  /** The sum so far, in seconds. */
  get seconds(): number {
    return this.#ms / 1000;
  }

  /** Waits for a time in ms, or for the signal. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    const startMs = performance.now();
    await pause(ms, signal);
    const lateMs = performance.now() - startMs - ms;
    // The signal ends a pause early.
    this.#ms += Math.max(0, lateMs);
  }
}
