/**
 * Deadlines of calls.
 *
 * They are plain `AbortSignal`s: their timers do not keep a process alive without
 * listeners, and cost nothing at start-up.
 *
 * @module
 */

/**
 * Makes the signal of a call with a time limit, within the call around it.
 *
 * @param timeoutMs From now on, in milliseconds
 * @param parent The signal of the call around this one
 */
export function deadline(
  timeoutMs: number,
  parent?: AbortSignal,
): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs);
  return parent === undefined ? timeout : AbortSignal.any([parent, timeout]);
}

/** Reports whether a signal is a timeout rather than a cancellation. */
export function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}

/**
 * Names the reason why a call was given up before it started.
 *
 * Source: Go context `DeadlineExceeded`, `Canceled`.
 */
export function formatAbort(signal: AbortSignal): string {
  return isTimeout(signal) ? "context deadline exceeded" : "context canceled";
}

/**
 * Waits for a promise, at most until the signal.
 *
 * @returns Its value; undefined if the signal came first
 */
export async function waitUntil<T>(
  over: Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  if (signal.aborted) {
    over.catch(() => {}); // Nobody is there to take its error.
    return undefined;
  }
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => resolve(undefined);
  signal.addEventListener("abort", onAbort);
  try {
    return await Promise.race([over, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Waits for a time in milliseconds, at most until the signal. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await waitUntil(new Promise<never>(() => {}), deadline(ms, signal));
}
