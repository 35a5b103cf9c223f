/**
 * Deadlines of calls.
 *
 * They are plain `AbortSignal`s: their timers do not keep a process alive without
 * listeners, and cost nothing at start-up.
 *
 * @module
 */

/**
 * Makes the signal of a time limit. To apply the limit within a call, join it
 * with the call's signal: `new JoinedSignal(deadline(1000), call.signal)`.
 *
 * @param timeoutMs From now on, in milliseconds
 */
export function deadline(timeoutMs: number): AbortSignal {
  return AbortSignal.timeout(timeoutMs);
}

/**
 * A signal that is aborted with the first of several, until it is disposed of.
 * Unless that is done, a time limit among them keeps the process alive.
 *
 * `AbortSignal.any()` would leak in a process that stays. It relies on
 * FinalizationRegistry, and V8 runs the executables in a single thread
 * (`--single-threaded`), where finalization callbacks never run.
 */
export class JoinedSignal implements Disposable {
  readonly #signals: readonly AbortSignal[];
  readonly #controller = new AbortController();

  /** Listens to the signals; undefined stands for none. */
  constructor(...signals: readonly (AbortSignal | undefined)[]) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    for (const signal of this.#signals) {
      signal.addEventListener("abort", this.#onAbort);
    }
    this.#onAbort();
  }

  /** Returns the signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Stops listening; the signal is not aborted any more. */
  [Symbol.dispose](): void {
    for (const signal of this.#signals) {
      signal.removeEventListener("abort", this.#onAbort);
    }
  }

  #onAbort = (): void => {
    const first = this.#signals.find(({ aborted }) => aborted);
    if (first !== undefined) this.#end(first);
  };

  #end({ reason }: AbortSignal): void {
    this[Symbol.dispose]();
    this.#controller.abort(reason);
  }
}

/** Reports whether a signal is a timeout rather than a cancellation. */
export function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}

/**
 * Names the reason why a call was given up before it started.
 *
 * Source: Go context `DeadlineExceeded`, `Canceled`.
 */
export function formatAbort(signal: AbortSignal): string {
  return isTimeout(signal) ? "context deadline exceeded" : "context canceled";
}

/**
 * Waits for a promise, at most until one of the signals.
 *
 * @returns Its value; undefined if a signal came first
 */
export async function waitUntil<T>(
  over: Promise<T>,
  ...signals: readonly AbortSignal[]
): Promise<T | undefined> {
  if (signals.some(({ aborted }) => aborted)) {
    over.catch(() => {}); // Nobody is there to take its error.
    return undefined;
  }
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => resolve(undefined);
  for (const signal of signals) signal.addEventListener("abort", onAbort);
  try {
    return await Promise.race([over, aborted]);
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", onAbort);
  }
}

/** Waits for a time in milliseconds, at most until the signal. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  // Not one signal made from both: the lasting one would remember each of them.
  const signals = [AbortSignal.timeout(ms), ...signal ? [signal] : []];
  await waitUntil(new Promise<never>(() => {}), ...signals);
}
