/**
 * Trying again, for as long as it makes sense.
 *
 * @module
 */

import { deadline, pause } from "../cni/invoke/deadline.ts";
import { KubeError } from "./kube_error.ts";

/** Time for one try of a GET, in milliseconds. */
const PER_TRY_MS = 1500;
/** Time for all tries together, in milliseconds. */
const OVERALL_MS = 2500;
/** Time between two tries, in milliseconds, unless the server says. */
const PAUSE_MS = 250;

/** How long something may take. */
export interface TimeLimits {
  /** Gives it up. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Time for one try of a GET, in milliseconds; 1500 unless told. What is not
   * tried again has all the time there is.
   */
  readonly perTryMs?: number | undefined;
  /** Time for all tries together, in milliseconds; 2500 unless told. */
  readonly overallMs?: number | undefined;
}

/** Makes the signal of something with several requests in it. */
export function overallSignal(limits: TimeLimits): AbortSignal {
  return deadline(limits.overallMs ?? OVERALL_MS, limits.signal);
}

/**
 * Tries something until it works, another try makes no sense, or time is up.
 *
 * @param attempt Makes one try, in the time that the signal gives it
 * @param method HTTP method; only a GET may be carried out twice
 * @throws {KubeError} That of the last try, or if time was up meanwhile that of
 *   the one before, which says why it takes so long
 */
export async function retry<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  method: string,
  limits: TimeLimits = {},
): Promise<T> {
  const { perTryMs = PER_TRY_MS, overallMs = OVERALL_MS } = limits;
  const overall = overallSignal(limits);
  const endMs = performance.now() + overallMs;
  const tryMs = method === "GET" ? perTryMs : overallMs;
  for (let before: KubeError | undefined;;) {
    try {
      return await attempt(deadline(tryMs, overall));
    } catch (error) {
      const isWorthIt = error instanceof KubeError && mayRetry(error, method);
      if (overall.aborted && isWorthIt) throw before ?? error;
      if (!isWorthIt) throw error;
      const pauseMs = error.retryAfterMs || PAUSE_MS;
      if (performance.now() + pauseMs >= endMs) throw error;
      await pause(pauseMs, overall);
      if (overall.aborted) throw error;
      before = error;
    }
  }
}

/** What may pass by itself, of which nobody knows what was carried out. */
const PASSING: readonly number[] = [500, 502, 503, 504];

function mayRetry(error: KubeError, method: string): boolean {
  if (error.isUntrusted) return false;
  if (error.isUnsent || error.status === 429) return true;
  return method === "GET" &&
    (error.status === 0 || PASSING.includes(error.status));
}
