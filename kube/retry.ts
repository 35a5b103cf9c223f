/**
 * Repeats requests that may succeed later.
 *
 * @module
 */

import { JoinedSignal, pause } from "../base/deadline.ts";
import { yieldIfLong } from "../base/long_wait.ts";
import { KubeError } from "./kube_error.ts";

/**
 * Time limit of the first try, in milliseconds. A second connection costs a busy
 * server more than the answer to the first request.
 */
const PER_TRY_MS = 10_000;
/** Time limit of all tries together, in milliseconds. */
const OVERALL_MS = 60_000;
/**
 * How long to repeat a request while connections are refused, in milliseconds: longer
 * than the restart of a server takes. Without a server, the caller would occupy a slot
 * of the runtime in vain; the kubelet retries by itself.
 */
const REFUSED_MS = 5000;
/** The first pause between two tries, in milliseconds. Each pause doubles. */
export const FIRST_PAUSE_MS = 250;
/** The longest pause between two tries, in milliseconds. */
export const LONGEST_PAUSE_MS = 1000;

/**
 * Returns how long to wait before the next try, in milliseconds: doubled from
 * the first to the longest.
 *
 * @param failures Number of consecutive failures; 1 or more
 */
export function backoff(
  failures: number,
  firstMs: number,
  longestMs: number,
): number {
  return Math.min(firstMs * 2 ** (failures - 1), longestMs);
}

/**
 * Time limits of a request. They count time in which this process waits for the
 * server: see {@linkcode JoinedSignal}.
 */
export interface TimeLimits {
  /** Cancels the request. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Time limit of the first try, in milliseconds; 10000 by default. Each try that
   * times out doubles it: a dead connection costs little, and a slow server
   * still gets to answer. A POST is not repeated and gets all the time there is.
   */
  readonly perTryMs?: number | undefined;
  /** Time limit of all tries together, in milliseconds; 60000 by default. */
  readonly overallMs?: number | undefined;
}

/** Limits an operation with several requests, until it is disposed of. */
export function limitOverall(limits: TimeLimits): JoinedSignal {
  const { overallMs = OVERALL_MS, signal } = limits;
  return new JoinedSignal(overallMs, signal);
}

/**
 * Repeats a request until it succeeds, fails for good, or runs out of time.
 *
 * @param attempt Makes one try within the signal's time limit
 * @param method HTTP method. Every method but POST is idempotent here: each
 *   PATCH is a merge patch or tests what it changes, each PUT names the version
 *   that it replaces
 * @throws {KubeError} The error of the last try; if that try ran out of time,
 *   the error of the try before, which explains more
 */
export async function retry<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  method: string,
  limits: TimeLimits = {},
): Promise<T> {
  return await yieldIfLong(() => retryInTime(attempt, method, limits));
}

async function retryInTime<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  method: string,
  limits: TimeLimits,
): Promise<T> {
  const { perTryMs = PER_TRY_MS } = limits;
  using limit = limitOverall(limits);
  const { signal: overall, leftMs } = limit;
  let tryMs = method === "POST" ? leftMs : perTryMs;
  let before: KubeError | undefined;
  let refusedMs = 0;
  for (let failures = 1;; failures++) {
    try {
      using one = new JoinedSignal(tryMs, overall);
      return await attempt(one.signal);
    } catch (error) {
      const isWorthIt = error instanceof KubeError && mayRetry(error, method);
      if (overall.aborted && isWorthIt) throw before ?? error;
      if (!isWorthIt) throw error;
      const waitMs = error.retryAfterMs ||
        backoff(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
      refusedMs = error.isRefused ? refusedMs + waitMs : 0;
      if (waitMs >= limit.leftMs || refusedMs > REFUSED_MS) throw error;
      await pause(waitMs, overall);
      if (overall.aborted) throw error;
      if (error.isTimeout) tryMs *= 2;
      before = error;
    }
  }
}

/** Statuses of a server that might recover, and might have carried out the request. */
const PASSING: readonly number[] = [500, 502, 503, 504];

function mayRetry(error: KubeError, method: string): boolean {
  if (error.isUntrusted) return false;
  if (error.isUnsent || error.status === 429) return true;
  return method !== "POST" &&
    (error.status === 0 || PASSING.includes(error.status));
}
