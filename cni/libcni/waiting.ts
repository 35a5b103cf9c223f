/**
 * Waiting for what other processes, and others in this one, are at.
 *
 * @module
 */

import { pause, waitUntil } from "../deadline.ts";

/** How long to wait, and what to say then. */
export interface Patience {
  /** Ends the wait; undefined for never. */
  readonly signal: AbortSignal | undefined;
  /** Makes the error that the wait ends with. */
  readonly giveUp: () => Error;
  /** Runs once if the wait takes long. */
  readonly notice?: () => void;
  /** What is long, in ms; 5 s by default. */
  readonly noticeMs?: number;
}

const NOTICE_MS = 5000;

/** The first and the longest pause between two attempts. */
const FIRST_PAUSE_MS = 1, LONGEST_PAUSE_MS = 50;

/**
 * Makes attempts until one succeeds, with a pause in between that grows to a
 * twentieth of a second. The event loop goes on meanwhile.
 *
 * @throws What `giveUp` makes, at the signal; and whatever `attempt` throws
 */
export async function pollUntil<T>(
  attempt: () => T | undefined,
  patience: Patience,
): Promise<T> {
  const { notice, noticeMs = NOTICE_MS } = patience;
  const noticeAtMs = performance.now() + noticeMs;
  let isNoticed = false;
  for (let pauseMs = FIRST_PAUSE_MS;; pauseMs *= 2) {
    throwIfEnded(patience);
    const outcome = attempt();
    if (outcome !== undefined) return outcome;
    if (!isNoticed && performance.now() >= noticeAtMs) {
      isNoticed = true;
      notice?.();
    }
    await pause(Math.min(pauseMs, LONGEST_PAUSE_MS), patience.signal);
  }
}

/** Queues of those who want the same thing, one for each name. */
export class TurnQueues {
  /** What ends when the last in the queue is done. */
  readonly #tails = new Map<string, Promise<void>>();

  /**
   * Waits until all who came before are done.
   *
   * @returns The turn, which ends with its disposal
   * @throws What `giveUp` makes, at the signal
   */
  async takeTurn(name: string, patience: Patience): Promise<Disposable> {
    const before = this.#tails.get(name) ?? Promise.resolve();
    const { promise: done, resolve: leave } = Promise.withResolvers<void>();
    // Who gives up leaves, and those behind still wait for those before.
    const tail = before.then(() => done);
    this.#tails.set(name, tail);
    tail.then(() => this.#forget(name, tail));
    try {
      await (patience.signal ? waitUntil(before, patience.signal) : before);
      throwIfEnded(patience);
    } catch (error) {
      leave();
      throw error;
    }
    return { [Symbol.dispose]: leave };
  }

  #forget(name: string, tail: Promise<void>): void {
    if (this.#tails.get(name) === tail) this.#tails.delete(name);
  }
}

function throwIfEnded({ signal, giveUp }: Patience): void {
  if (signal?.aborted) throw giveUp();
}
