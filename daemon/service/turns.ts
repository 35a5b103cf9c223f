/**
 * The order in which calls run: those of one attachment one after the other, as
 * they came, and of all together only some at once.
 *
 * @module
 */

import { waitUntil } from "../../base/deadline.ts";
import type { GiveWay } from "../../cni/call/surroundings.ts";

const NEVER = new AbortController().signal;

/** A call's turn, to be disposed of when the call has ended. */
export interface Turn extends Disposable {
  /** Lets the next call run during a wait. */
  readonly giveWay: GiveWay;
}

/** Waiting of calls for each other. */
export class Turns {
  readonly #limit: number;
  /** The end of the last call of each line. */
  readonly #lines = new Map<string, Promise<void>>();
  readonly #queue: (() => void)[] = [];
  #running = 0;
  #waiting = 0;

  /** @param limit How many calls may run at once; 1 or more */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** How many calls run. */
  get running(): number {
    return this.#running;
  }

  /** How many calls wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Waits for a call's turn.
   *
   * @param line Calls of one line run one after the other; undefined for a call
   *   that runs beside all others
   * @returns The turn; undefined if the signal came first
   */
  async wait(
    line: string | undefined,
    signal: AbortSignal,
  ): Promise<Turn | undefined> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const before = line === undefined ? undefined : this.#enter(line, ended);
    this.#waiting++;
    try {
      if (before !== undefined) await waitUntil(before, signal);
      const hasSlot = await this.#takeSlot(signal);
      if (!hasSlot) {
        // Those behind it still wait for those before it.
        if (before === undefined) end();
        else before.then(end);
        return undefined;
      }
    } finally {
      this.#waiting--;
    }
    let waits = 0;
    return {
      giveWay: async (wait) => {
        if (waits++ === 0) this.#freeSlot();
        this.#waiting++;
        try {
          return await wait();
        } finally {
          // One call may wait for several answers at once.
          if (--waits === 0) await this.#takeSlot(NEVER);
          this.#waiting--;
        }
      },
      [Symbol.dispose]: (): void => {
        end();
        this.#freeSlot();
      },
    };
  }

  /** Joins a line; returns the end of the call before. */
  #enter(line: string, ended: Promise<void>): Promise<void> | undefined {
    const before = this.#lines.get(line);
    this.#lines.set(line, ended);
    ended.then(() => {
      if (this.#lines.get(line) === ended) this.#lines.delete(line);
    });
    return before;
  }

  async #takeSlot(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.#running < this.#limit) {
      this.#running++;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<true>();
    const take = (): void => resolve(true);
    this.#queue.push(take);
    if (await waitUntil(promise, signal)) return true;
    const at = this.#queue.indexOf(take);
    if (at === -1) this.#freeSlot(); // It got the slot at the same time.
    else this.#queue.splice(at, 1);
    return false;
  }

  /** Passes the slot on to the call that waits longest. */
  #freeSlot(): void {
    const next = this.#queue.shift();
    if (next === undefined) this.#running--;
    else next();
  }
}
