/**
 * Ends a run early: on a signal, or after a time limit.
 *
 * @module
 */

/** Signals of Ctrl-C, a supervisor and a closed terminal. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Returns a signal that is aborted by one of the operating system, or when the
 * time is over. Its reason is a text that says which.
 *
 * @param limitMs How long a run may take, in ms; by default for ever
 */
export function createStop(limitMs?: number): AbortSignal {
  const stop = new AbortController();
  for (const signal of SIGNALS) {
    Deno.addSignalListener(signal, () => stop.abort(`${signal} has come`));
  }
  if (limitMs !== undefined) {
    const why = `the limit of ${limitMs / 1000} s for all tests is over`;
    Deno.unrefTimer(setTimeout(() => stop.abort(why), limitMs));
  }
  return stop.signal;
}
