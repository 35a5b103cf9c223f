/**
 * Deadlines of calls, and limits of waits.
 *
 * A deadline is a point in time. A limit counts only time in which this process could
 * observe the awaited event: a process that is stopped, or gets no CPU time, does not
 * wait.
 *
 * All timers are `AbortSignal`s, which cost nothing at start-up.
 *
 * @module
 */

/**
 * Creates the signal of a deadline, which also passes while this process is stopped.
 * Its timer does not keep a process alive without listeners.
 *
 * @param timeoutMs Time until the deadline, in milliseconds
 */
export function deadline(timeoutMs: number): AbortSignal {
  return AbortSignal.timeout(timeoutMs);
}

/** The longest time that counts until the event loop has run again, in ms. */
const TICK_MS = 100;

/**
 * Counts how long this process waits: the time limit in equal ticks of at most
 * {@linkcode TICK_MS}, each of which counts no more than that, however late it ends.
 * A tick that ends late is never the last, because events that occurred in the
 * meantime have not been handled yet.
 */
class Countdown {
  readonly #tickMs: number;
  readonly #onOver: (timer: AbortSignal) => void;
  /** How many ticks are left. */
  #left: number;
  #timer: AbortSignal;
  #startMs = 0;

  /** Starts. Keeps the process alive until it ends or is stopped. */
  constructor(limitMs: number, onOver: (timer: AbortSignal) => void) {
    this.#left = Math.max(1, Math.ceil(limitMs / TICK_MS));
    this.#tickMs = Math.ceil(limitMs / this.#left);
    this.#onOver = onOver;
    this.#timer = this.#start();
  }

  get leftMs(): number {
    return this.#left * this.#tickMs;
  }

  stop(): void {
    this.#timer.removeEventListener("abort", this.#onTick);
  }

  #start(): AbortSignal {
    this.#startMs = performance.now();
    const timer = AbortSignal.timeout(this.#tickMs);
    timer.addEventListener("abort", this.#onTick);
    return timer;
  }

  #onTick = (): void => {
    const isLate = performance.now() - this.#startMs > 2 * this.#tickMs;
    const isLast = this.#left <= 0;
    this.#left--;
    const isOver = this.#left <= 0 && (isLast || !isLate);
    if (isOver) this.#onOver(this.#timer);
    else this.#timer = this.#start();
  };
}

/**
 * A signal that is aborted with the first of several signals, or when this process
 * has waited for a time, until it is disposed of. Without disposal, a time limit
 * keeps the process alive.
 *
 * ```ts ignore
 * using limit = new JoinedSignal(1000, call.signal);
 * ```
 *
 * `AbortSignal.any()` would leak in a long-running process. It relies on
 * FinalizationRegistry, and V8 runs the executables in a single thread
 * (`--single-threaded`), where finalization callbacks never run.
 */
export class JoinedSignal implements Disposable {
  readonly #signals: readonly AbortSignal[];
  readonly #countdowns: readonly Countdown[];
  readonly #controller = new AbortController();

  /**
   * Listens to the signals, and starts to count.
   *
   * @param limits Signals; time limits in milliseconds; undefined or Infinity for none
   */
  constructor(...limits: readonly (AbortSignal | number | undefined)[]) {
    this.#signals = limits.filter((limit) => limit instanceof AbortSignal);
    this.#countdowns = limits.filter((limit) => typeof limit === "number")
      .filter((limitMs) => limitMs !== Infinity)
      .map((limitMs) => new Countdown(limitMs, (timer) => this.#end(timer)));
    for (const signal of this.#signals) {
      signal.addEventListener("abort", this.#onAbort);
    }
    this.#onAbort();
  }

  /** The remaining waiting time, in milliseconds; Infinity without a time limit. */
  get leftMs(): number {
    return Math.min(...this.#countdowns.map(({ leftMs }) => leftMs));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Stops listening; the signal is no longer aborted. */
  [Symbol.dispose](): void {
    for (const countdown of this.#countdowns) countdown.stop();
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
 * Formats the reason why a call was aborted before it started.
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
  // A combined signal would leak: the long-lived signal would keep a reference to
  // each.
  const signals = [AbortSignal.timeout(ms), ...signal ? [signal] : []];
  await waitUntil(new Promise<never>(() => {}), ...signals);
}

/** The longest time in which steps run without the event loop, in ms. */
const WORK_MS = 50;

let lastYieldMs = performance.now();

/** Records that the event loop has just run, as at the beginning of a call. */
export function noteYield(): void {
  lastYieldMs = performance.now();
}

/**
 * Lets the event loop run other calls and timers between two steps, which takes 2 ms,
 * if it has not run for {@linkcode WORK_MS}. Costs nothing otherwise.
 */
export async function yieldToEventLoop(): Promise<void> {
  if (performance.now() - lastYieldMs < WORK_MS) return;
  await pause(0);
  noteYield();
}
