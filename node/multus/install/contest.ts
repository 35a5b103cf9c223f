/**
 * Putting something back that somebody else has taken away, who may do it
 * again: two programs that each have their way at once would keep the node
 * busy.
 *
 * @module
 */

import { NotYetError } from "./not_yet_error.ts";

/** Who has been left alone for so long starts anew, in ms. */
const CALM_MS = 60_000;
const FIRST_PAUSE_MS = 1000, LONGEST_PAUSE_MS = 10_000;

/** How often one thing is put back: at once, then after longer and longer pauses. */
export class Contest {
  readonly #path: string;
  readonly #now: () => number;
  #pauseMs = 0;
  #lastMs = -Infinity;

  /**
   * @param path What is put back
   * @param now Milliseconds of a clock that does not jump
   */
  constructor(path: string, now: () => number = () => performance.now()) {
    this.#path = path;
    this.#now = now;
  }

  /**
   * Takes a turn at putting it back.
   *
   * @throws {NotYetError} If the last one was not long enough ago
   */
  takeTurn(): void {
    const calmMs = this.#now() - this.#lastMs;
    if (calmMs < this.#pauseMs) {
      throw new NotYetError(
        `Cannot put "${this.#path}" back yet: somebody else keeps replacing it`,
      );
    }
    this.#pauseMs = calmMs >= CALM_MS
      ? FIRST_PAUSE_MS
      : Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    this.#lastMs = this.#now();
  }
}
