/**
 * Limits how often a file is restored that another program keeps changing. Two
 * programs that both react at once would keep the node busy.
 *
 * @module
 */

import { NotYetError } from "./steps.ts";

/** The pauses start over after this time without a contest, in ms. */
const CALM_MS = 60_000;
const FIRST_PAUSE_MS = 1000, LONGEST_PAUSE_MS = 10_000;

/** Limits the restoring of one file: at once, then after increasing pauses. */
export class Contest {
  readonly #path: string;
  readonly #now: () => number;
  #pauseMs = 0;
  #lastMs = -Infinity;

  /**
   * @param path The restored file, for messages
   * @param now Milliseconds of a monotonic clock
   */
  constructor(path: string, now: () => number = () => performance.now()) {
    this.#path = path;
    this.#now = now;
  }

  /**
   * Takes a turn to restore the file.
   *
   * @throws {NotYetError} If the last turn was too recent
   */
  takeTurn(): void {
    const calmMs = this.#now() - this.#lastMs;
    if (calmMs < this.#pauseMs) {
      throw new NotYetError(
        `Cannot put "${this.#path}" back yet: another program keeps replacing it`,
      );
    }
    this.#pauseMs = calmMs >= CALM_MS
      ? FIRST_PAUSE_MS
      : Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    this.#lastMs = this.#now();
  }
}
