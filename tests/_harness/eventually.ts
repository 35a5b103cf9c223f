/**
 * Waiting for conditions.
 *
 * @module
 */

/** Longest wait on the slowest machine, in ms: for this project's programs, and Kubernetes'. */
const TIMEOUT_MS = 60_000, CLUSTER_MS = 4 * 60_000;
/** How long to wait before the condition is tried again, at least and at most. */
const POLL_MS = 5, MOST_POLL_MS = 250;
/** How often longer than the last try; so waiting leaves the processor to others. */
const REST = 3;

/**
 * Waits until a condition holds.
 *
 * @param what The condition in words, for the error
 * @param describe What there is instead, for the error
 * @param timeoutMs Longest wait, in ms
 */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  describe: () => string | Promise<string> = () => "",
  timeoutMs: number = TIMEOUT_MS,
): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const startMs = performance.now();
    if (await isSo()) return;
    const nowMs = performance.now();
    if (nowMs > endMs) {
      const found = await describe();
      throw new Error(`Timed out waiting until ${what} ${found}`.trim());
    }
    const restMs = REST * (nowMs - startMs);
    const pollMs = Math.min(Math.max(restMs, POLL_MS), MOST_POLL_MS);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** Waits as {@linkcode eventually} does for programs of Kubernetes, which take their time. */
export async function until(
  ...[what, isSo, describe]: Parameters<typeof eventually>
): Promise<void> {
  await eventually(what, isSo, describe, CLUSTER_MS);
}

/**
 * Returns the signal of a deadline that passes once a condition holds, however
 * long that takes on this machine.
 */
export function deadlineWhen(isSo: () => boolean): AbortSignal {
  const controller = new AbortController();
  const end = (): void =>
    controller.abort(new DOMException("", "TimeoutError"));
  eventually("the deadline passed", isSo).then(end, end);
  return controller.signal;
}
