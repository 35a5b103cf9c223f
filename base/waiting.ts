/**
 * Waits for other processes.
 *
 * @module
 */

import { pause } from "./deadline.ts";
import { yieldIfLong } from "./long_wait.ts";

/** A value or a promise. Plugins that only access the kernel need no promise. */
export type MaybePromise<T> = T | Promise<T>;

/** Time limit of polling, and the reaction to it. */
export interface PollOptions {
  /** Ends the wait; undefined to wait forever. */
  readonly signal: AbortSignal | undefined;
  /** Creates the error that ends the wait. */
  readonly giveUp: () => Error;
  /** Called once if the wait takes long. */
  readonly notice?: () => void;
  /** When a wait counts as long, in ms; 5 s by default. */
  readonly noticeMs?: number;
}

const NOTICE_MS = 5000;

/** The first and the longest pause between two attempts. */
const FIRST_PAUSE_MS = 1, LONGEST_PAUSE_MS = 50;

/**
 * Polls until an attempt succeeds. The pause between attempts grows to 50 ms.
 * The event loop keeps running.
 *
 * @throws The error from `giveUp` on the signal, or an error from `attempt`
 */
export async function pollUntil<T>(
  attempt: () => T | undefined,
  options: PollOptions,
): Promise<T> {
  throwIfEnded(options);
  const outcome = attempt();
  if (outcome !== undefined) return outcome;
  return await yieldIfLong(() => poll(attempt, options));
}

async function poll<T>(
  attempt: () => T | undefined,
  options: PollOptions,
): Promise<T> {
  const { notice, noticeMs = NOTICE_MS } = options;
  const noticeAtMs = performance.now() + noticeMs;
  let isNoticed = false;
  for (let pauseMs = FIRST_PAUSE_MS;; pauseMs *= 2) {
    if (!isNoticed && performance.now() >= noticeAtMs) {
      isNoticed = true;
      notice?.();
    }
    await pause(Math.min(pauseMs, LONGEST_PAUSE_MS), options.signal);
    throwIfEnded(options);
    const outcome = attempt();
    if (outcome !== undefined) return outcome;
  }
}

function throwIfEnded({ signal, giveUp }: PollOptions): void {
  if (signal?.aborted) throw giveUp();
}
