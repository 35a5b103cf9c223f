/**
 * How long the daemon's loop has stood still: its process was stopped or starved,
 * or a step took long.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";

/** Adds up by how much pauses last longer than they should. */
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
    // Before the signal it is early.
    this.#ms += Math.max(0, lateMs);
  }
}
