/**
 * Interruption by signals.
 *
 * @module
 */

/** Signals that interrupt the tool, and their numbers. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** The abort reason after a signal. */
export class Interruption extends Error {
  /** The exit code that shells expect after that signal. */
  readonly exitCode: number;

  /** Creates the reason for a signal. */
  constructor(signal: keyof typeof SIGNALS) {
    super(`interrupted by ${signal}`);
    this.exitCode = 128 + SIGNALS[signal];
  }
}

/**
 * Makes the first SIGINT, SIGTERM or SIGHUP abort the command, so that it can
 * clean up, and the second one exit at once.
 */
export function listenToSignals(): AbortSignal {
  const controller = new AbortController();
  for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) {
    Deno.addSignalListener(signal, () => {
      const reason = new Interruption(signal);
      if (controller.signal.aborted) Deno.exit(reason.exitCode);
      controller.abort(reason);
    });
  }
  return controller.signal;
}

/** Rejects with the reason of an interruption some time after it. */
export function endAfter(
  interrupt: AbortSignal,
  graceMs: number,
): Promise<never> {
  return new Promise((_, reject) => {
    const wait = (): void =>
      AbortSignal.timeout(graceMs)
        .addEventListener("abort", () => reject(interrupt.reason));
    if (interrupt.aborted) wait();
    else interrupt.addEventListener("abort", wait);
  });
}
