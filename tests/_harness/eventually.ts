/**
 * Waiting for what takes its time.
 *
 * @module
 */

/** How long anything may take that is waited for, however slow the machine is, in ms. */
const PATIENCE_MS = 60_000;
const POLL_MS = 5;

/**
 * Waits until something is so.
 *
 * @param what The end of "It did not come to pass that ..."
 */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!await isSo()) {
    if (performance.now() > endMs) {
      throw new Error(`It did not come to pass that ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/**
 * Makes the signal of a deadline that passes once something is so, however long
 * that takes on this machine.
 */
export function deadlineWhen(isSo: () => boolean): AbortSignal {
  const controller = new AbortController();
  const end = (): void =>
    controller.abort(new DOMException("", "TimeoutError"));
  eventually("the deadline passed", isSo).then(end, end);
  return controller.signal;
}
