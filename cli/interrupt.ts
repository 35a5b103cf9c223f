/**
 * What happens when the user has had enough.
 *
 * @module
 */

/** Signals by which the tool is asked to end, and their numbers. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** The reason of an end that was asked for by a signal. */
export class Interruption extends Error {
  /** What shells expect of a process that ended by that signal. */
  readonly exitCode: number;

  /** Makes the reason of a signal. */
  constructor(signal: keyof typeof SIGNALS) {
    super(`interrupted by ${signal}`);
    this.exitCode = 128 + SIGNALS[signal];
  }
}

/**
 * Has the first SIGINT, SIGTERM or SIGHUP abort what is going on, so that it
 * can be undone, and the second one end the process at once.
 *
 * @param onFirst Told of the first one
 */
export function listenToSignals(
  onFirst: (reason: Interruption) => void,
): AbortSignal {
  const controller = new AbortController();
  for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) {
    Deno.addSignalListener(signal, () => {
      const reason = new Interruption(signal);
      if (controller.signal.aborted) Deno.exit(reason.exitCode);
      onFirst(reason);
      controller.abort(reason);
    });
  }
  return controller.signal;
}
