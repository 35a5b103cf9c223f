/**
 * Runs steps in order, once or repeatedly.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import {
  deadline,
  JoinedSignal,
  pause,
  waitUntil,
} from "../../../base/deadline.ts";
import type { Log } from "../../../base/log/log.ts";
import { isDirectory } from "../../../base/files/io.ts";

/** A step that ensures one condition. */
export interface InstallStep {
  /** The step's name in the log. */
  readonly name: string;
  /** Ensures the condition; changes nothing if it holds. */
  readonly ensure: () => void | Promise<void>;
}

/** Interval between retries without watching, in ms. */
const RETRY_MS = 500;

/** Steps that each depend on the previous steps. */
export class InstallSteps {
  readonly #steps: readonly InstallStep[];
  readonly #log: Log;
  readonly #done = new Set<InstallStep>();
  /** The current problems, as they were logged. */
  readonly #problems = new Map<InstallStep, string>();

  /** Does not run any step yet. */
  constructor(steps: readonly InstallStep[], log: Log) {
    this.#steps = steps;
    this.#log = log;
  }

  /**
   * Runs all steps. After a failure, it continues only if the failed step succeeded
   * before. Each problem is logged once.
   *
   * @returns Whether no problem remains
   */
  async run(): Promise<boolean> {
    for (const step of this.#steps) {
      try {
        await step.ensure();
        this.#done.add(step);
        this.#recover(step);
      } catch (error) {
        this.#logOnce(step, error);
        if (!this.#done.has(step)) break;
      }
    }
    return this.#problems.size === 0;
  }

  /**
   * Runs all steps once, and waits for missing objects.
   *
   * @param timeoutMs Time limit for all steps
   * @throws {Error} On a failed step, a timeout, or the signal
   */
  async runOnce(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    for (const step of this.#steps) {
      while (!await this.#tryStep(step, endMs)) {
        await pause(RETRY_MS, signal);
        signal.throwIfAborted();
      }
    }
  }

  async #tryStep(step: InstallStep, endMs: number): Promise<boolean> {
    try {
      await step.ensure();
      return true;
    } catch (error) {
      const isInTime = performance.now() < endMs;
      if (!(error instanceof NotYetError) || !isInTime) throw error;
      this.#logOnce(step, error);
      return false;
    }
  }

  #logOnce(step: InstallStep, error: unknown): void {
    const reason = describeError(error);
    if (this.#problems.get(step) === reason) return;
    this.#problems.set(step, reason);
    const fields = { step: step.name, reason };
    if (error instanceof NotYetError) this.#log.info("waiting", fields);
    else this.#log.error("failed, will retry", fields);
  }

  #recover(step: InstallStep): void {
    if (!this.#problems.delete(step)) return;
    this.#log.info("recovered", { step: step.name });
  }
}

/**
 * An object is missing, but might appear on the node later, so waiting is useful.
 */
export class NotYetError extends Error {}

/**
 * Poll interval, in ms. Polling detects changes on file systems without
 * notifications, and in directories that did not exist.
 */
const POLL_MS = 10_000;
/**
 * Pause after the first failure, in ms, doubled each time up to
 * {@linkcode POLL_MS}.
 */
const FIRST_RETRY_MS = 1000;
/**
 * Delay after a change, in ms, because changes come in groups: a file is
 * created, then written.
 */
const SETTLE_MS = 100;

/**
 * Acts immediately, and again after each change in a directory or after some time,
 * until the signal.
 *
 * @param directories Missing directories are polled
 * @param act Returns whether it succeeded; must not throw
 */
export async function watch(
  directories: readonly string[],
  act: () => Promise<boolean>,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const open = createOpener(directories, log);
  for (let failures = 0; !signal.aborted;) {
    // Opened first, so that a change during the action triggers a further action.
    const watcher = open();
    try {
      failures = await act() ? 0 : failures + 1;
      using end = new JoinedSignal(deadline(chooseWait(failures)), signal);
      await waitForChange(watcher, end.signal);
    } finally {
      watcher?.close();
    }
    await pause(SETTLE_MS, signal);
  }
}

function chooseWait(failures: number): number {
  if (failures === 0) return POLL_MS;
  return Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), POLL_MS);
}

/** Returns a function that opens a watcher, and logs a failure once. */
function createOpener(
  directories: readonly string[],
  log: Log,
): () => Deno.FsWatcher | undefined {
  let isLogged = false;
  return () => {
    const present = [...new Set(directories)].filter(isDirectory);
    if (present.length === 0) return undefined;
    try {
      return Deno.watchFs(present, { recursive: false });
    } catch (error) {
      const reason = describeError(error);
      if (!isLogged) {
        log.warn("cannot watch directories, will poll them", { reason });
      }
      isLogged = true;
      return undefined;
    }
  };
}

async function waitForChange(
  watcher: Deno.FsWatcher | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (watcher === undefined) return void await waitUntil(never, signal);
  const change = watcher[Symbol.asyncIterator]().next();
  await waitUntil(change, signal);
}

const never = new Promise<never>(() => {});
