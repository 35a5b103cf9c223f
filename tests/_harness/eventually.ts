/**
 * Waiting for conditions.
 *
 * @module
 */

/** Longest wait on the slowest machine, in ms. */
const PATIENCE_MS = 60_000;
const POLL_MS = 5;

/**
 * Waits until a condition holds.
 *
 * @param what The condition in words, for the error
 * @param describe What there is instead, for the error
 */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  describe: () => string = () => "",
): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!await isSo()) {
    if (performance.now() > endMs) {
      throw new Error(`Timed out waiting until ${what} ${describe()}`.trim());
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
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
