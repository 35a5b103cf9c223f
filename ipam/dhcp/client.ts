/**
 * What clients of both address families have: their limits, and when they try
 * again.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";

/** The daemon's limits, in ms. */
export interface Timing {
  /** How long one attempt to get a lease may take. */
  readonly timeoutMs: number;
  /** Longest pause between two attempts. */
  readonly resendMaxMs: number;
  /** When to give up. */
  readonly resendTimeoutMs: number;
}

/** Source: lease.go, main.go. */
export const DEFAULT_TIMING: Timing = {
  timeoutMs: 10_000,
  resendMaxMs: 62_000,
  resendTimeoutMs: 208_000,
};

/** How a client asks. */
export interface ClientOptions extends Timing {
  /** Whether servers are to answer by broadcast. */
  readonly broadcast: boolean;
}

/** The server refused a lease. */
export class RefusedError extends Error {}

/** Pauses between attempts: the first ones are short. Source: lease.go `backoffRetry`. */
const FAST_MS = 2000, FAST_TRIES = 4, FIRST_MS = 4000, JITTER_MS = 1000;

/**
 * Makes attempts until one succeeds.
 *
 * @throws {CniError} 11 if none does until the time limit or the signal
 */
export async function retryUntilDone<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, resendMaxMs, resendTimeoutMs, signal, onFailure }: Timing & {
    readonly signal: AbortSignal;
    readonly onFailure: (error: unknown) => void;
  },
): Promise<T> {
  using limit = new JoinedSignal(resendTimeoutMs, signal);
  const { signal: over } = limit;
  for (let tries = 0, slowMs = FIRST_MS;; tries++) {
    try {
      using limit = new JoinedSignal(timeoutMs, over);
      return await attempt(limit.signal);
    } catch (error) {
      onFailure(error);
      const isFast = tries < FAST_TRIES;
      await pause((isFast ? FAST_MS : slowMs) + jitter(), over);
      if (signal.aborted) throw ended(signal);
      if (over.aborted) {
        const text = `no time is left for another attempt: ${
          describeError(error)
        }`;
        throw new CniError(ErrorCode.TryAgainLater, text);
      }
      if (!isFast && slowMs < resendMaxMs) slowMs *= 2;
    }
  }
}

/** Returns the error of a call that is ended. */
export function ended({ reason }: AbortSignal): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `The DHCP daemon gave up: ${describeError(reason)}`,
  );
}

function jitter(): number {
  return JITTER_MS * (2 * Math.random() - 1);
}
