/**
 * Giving up on a call in time.
 *
 * All of it is `AbortSignal`, whose timers keep no process alive once nobody
 * listens to them, and cost nothing at the start of one.
 *
 * @module
 */

/**
 * Makes the signal of a call that may take so long, and no longer than the one
 * that it is part of.
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

/** Says whether a signal came of time that ran out, and not of somebody's wish. */
export function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}

/**
 * Names the end of a call that was given up before it began.
 *
 * Source: Go context `DeadlineExceeded`, `Canceled`.
 */
export function formatAbort(signal: AbortSignal): string {
  return isTimeout(signal) ? "context deadline exceeded" : "context canceled";
}

/**
 * Waits until something is over, but no longer than the signal lets it.
 *
 * @returns What it came to; undefined if the signal came first
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

/** Waits for a time in milliseconds, but no longer than the signal lets it. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await waitUntil(new Promise<never>(() => {}), deadline(ms, signal));
}
