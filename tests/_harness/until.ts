/**
 * Waiting for programs of Kubernetes, which take their time.
 *
 * @module
 */

import { pause } from "../../cni/call/deadline.ts";

/** Longest wait on the slowest machine, in ms. */
const PATIENCE_MS = 4 * 60_000;
/** Programs of the cluster need the processor, too. */
const POLL_MS = 300;

/**
 * Waits until a condition holds.
 *
 * @param what The condition in words, for the error
 * @param describe What there is instead, for the error
 */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  describe: () => string | Promise<string> = () => "",
): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!await isSo()) {
    if (performance.now() > endMs) {
      const found = await describe();
      throw new Error(`Timed out waiting until ${what} ${found}`.trim());
    }
    await pause(POLL_MS);
  }
}
