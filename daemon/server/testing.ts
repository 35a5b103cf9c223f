/**
 * Fixtures for tests of the daemon's calls.
 *
 * @module
 */

import type { Caller } from "./call_progress.ts";

/** Returns a caller, which stays unless a signal says otherwise. */
export function callerOf(signal = new AbortController().signal): Caller {
  return { signal, poll(): void {} };
}

/** Shortens waits of a length in ms, until disposal. */
export function shortened(length: number): Disposable {
  const { timeout } = AbortSignal;
  AbortSignal.timeout = (ms): AbortSignal =>
    timeout.call(AbortSignal, ms === length ? 1 : ms);
  return { [Symbol.dispose]: (): void => void (AbortSignal.timeout = timeout) };
}
