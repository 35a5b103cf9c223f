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
 * Makes the first SIGINT, SIGTERM or SIGHUP abort the command, so that it can clean
 * up, and the second signal exit immediately.
 */
export function listenToSignals(): AbortSignal {
  const controller = new AbortController();
  for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) {
    const listener = (): void => {
      const reason = new Interruption(signal);
      if (controller.signal.aborted) Deno.exit(reason.exitCode);
      controller.abort(reason);
    };
    Deno.addSignalListener(signal, listener);
    listeners.push([signal, listener]);
  }
  return controller.signal;
}

/** The listeners of this process. */
const listeners: [signal: Deno.Signal, listener: () => void][] = [];

/**
 * Runs work that might wait for the reader of a pipe. Listeners cannot run during the
 * wait, so signals kill the process, as in other programs.
 */
export function whileSignalsKill<T>(work: () => T): T {
  for (const one of listeners) Deno.removeSignalListener(...one);
  try {
    return work();
  } finally {
    for (const one of listeners) Deno.addSignalListener(...one);
  }
}

/** Rejects with the reason of an interruption, some time after the interruption. */
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
