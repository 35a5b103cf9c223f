/**
 * Counting time limits.
 *
 * @module
 */

/** Returns how many signals with a time limit this process makes in so many ms. */
export async function countTimeouts(ms: number): Promise<number> {
  const { timeout } = AbortSignal;
  let started = 0;
  AbortSignal.timeout = (limitMs): AbortSignal => {
    started++;
    return timeout.call(AbortSignal, limitMs);
  };
  try {
    await new Promise((resolve) => setTimeout(resolve, ms));
  } finally {
    AbortSignal.timeout = timeout;
  }
  return started;
}
