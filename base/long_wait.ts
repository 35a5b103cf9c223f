/**
 * Long waits of calls, for a process that runs many calls in a limited number of
 * slots. A call that waits for another process or for a server does not need its
 * slot.
 *
 * @module
 */

import { JoinedSignal, waitUntil } from "./deadline.ts";
import type { Slot } from "./queue.ts";

/**
 * A shorter wait keeps its slot, in ms, because most waits end before another call
 * begins.
 */
const LONG_MS = 250;

/** Stores the slot of the running call, like `AsyncLocalStorage`. */
export interface SlotStorage {
  getStore(): Slot["yieldDuring"] | undefined;
  run<T>(yieldDuring: Slot["yieldDuring"] | undefined, work: () => T): T;
}

let storage: SlotStorage | undefined;

/** Enables yielding, which a process with a single call does not need. */
export function enableYielding(newStorage: SlotStorage): void {
  storage ??= newStorage;
}

/** Runs a call whose long waits yield its slot, if yielding is enabled. */
export function withSlot<T>(
  yieldDuring: Slot["yieldDuring"] | undefined,
  work: () => T,
): T {
  return storage === undefined || yieldDuring === undefined
    ? work()
    : storage.run(yieldDuring, work);
}

/**
 * Runs work that several calls wait for without the slot of the call that begins it:
 * after a long wait, the work would wait for a slot that the other calls hold. Each
 * caller waits with {@linkcode yieldIfLong}.
 */
export function withoutSlot<T>(work: () => T): T {
  return storage === undefined ? work() : storage.run(undefined, work);
}

/** Waits, and lets other calls run if the wait takes long. */
export async function yieldIfLong<T>(wait: () => Promise<T>): Promise<T> {
  const yieldDuring = storage?.getStore();
  const waiting = wait();
  if (yieldDuring === undefined) return await waiting;
  const ended = waiting.then(() => true, () => true);
  using short = new JoinedSignal(LONG_MS);
  if (await waitUntil(ended, short.signal)) return await waiting;
  return await yieldDuring(() => waiting);
}
