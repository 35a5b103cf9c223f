/**
 * What clients of both address families have: their limits, and when they try
 * again.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { type LeaseRequest, uptime } from "./lease.ts";

/** The daemon's limits, in ms. */
export interface Timing {
  /** Time limit of an attempt to get a lease. */
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

/**
 * How many addresses of a network are declined in a period, in seconds.
 *
 * Unlike host-local's range, the size of a server's pool is unknown, and each node has
 * a limit of its own, so the number is small. Kea and ISC dhcpd keep a declined address
 * from all machines for a day by default.
 */
const MOST_DECLINED = 8, DECLINED_S = 86_400;

/** Keeps a machine that answers for every address from using up a server's pool. */
export class DeclineLimit {
  #declined: readonly { readonly pool: string; readonly at: number }[] = [];

  /**
   * Reports whether an address may be declined, and counts it then. An address that
   * may not is released.
   *
   * @param now In seconds
   */
  take(
    { network, family = 4 }: Pick<LeaseRequest, "network" | "family">,
    now: number = uptime(),
  ): boolean {
    const pool = `${family} ${network}`;
    const recent = this.#declined.filter(({ at }) => now - at < DECLINED_S);
    const count = recent.filter((one) => one.pool === pool).length;
    const isAllowed = count < MOST_DECLINED;
    this.#declined = isAllowed ? [...recent, { pool, at: now }] : recent;
    return isAllowed;
  }
}

/** Pauses between attempts: the first pauses are short. Source: lease.go `backoffRetry`. */
const FAST_MS = 2000, FAST_TRIES = 4, FIRST_MS = 4000, JITTER_MS = 1000;

/**
 * Repeats attempts until an attempt succeeds.
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
