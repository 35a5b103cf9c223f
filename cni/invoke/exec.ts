/**
 * Running a plugin as a process.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { yieldIfLong } from "../../base/long_wait.ts";
import { runToEnd } from "../../base/process/child.ts";
import type { Invocation, Starter } from "../call/context.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { readFormat } from "./program_format.ts";

/** The input of a plugin's process. */
export interface ExecInput extends
  Pick<
    Invocation,
    "env" | "stdin" | "onStderr" | "signal" | "onProcess"
  > {
  /** Receives the ID of the process. */
  readonly onChild?: ((pid: number) => void) | undefined;
}

/**
 * Runs the executable at `path`.
 *
 * The plugin may leave a daemon behind. If the daemon holds the plugin's output
 * open, reading stops one second after the plugin has exited.
 *
 * @param input With a signal, the plugin gets its own process group. At the signal
 *   the group is killed and the call fails within 200 ms
 * @param pauseForRetry Waits while the executable is being written
 * @returns Its stdout
 * @throws {CniError} The plugin's own error, otherwise 999 with its exit status
 */
export async function execPlugin(
  path: string,
  { env, stdin, onStderr, signal, onProcess, onChild }: ExecInput,
  pauseForRetry: PauseForRetry = pauseOneSecond,
): Promise<string> {
  const starter = await onProcess?.({ path, env, stdin }) ?? startPlainly;
  const startMs = performance.now();
  const child = await start(path, { env, signal, starter }, pauseForRetry);
  onChild?.(child.pid);
  const { success, ...ending } = await runToEnd(child, stdin, signal, onStderr);
  if (success) return ending.stdout;
  const elapsedMs = performance.now() - startMs;
  throw (await loadFailures()).failure(path, { ...ending, elapsedMs });
}

function startPlainly<T>(start: () => T): T {
  return start();
}

/** Loads code that only failing calls need. */
function loadFailures(): Promise<typeof import("./failure.ts")> {
  return import("./failure.ts");
}

/** Waits before retrying to start a file that is being written. */
type PauseForRetry = (signal: AbortSignal | undefined) => Promise<void>;

function pauseOneSecond(signal: AbortSignal | undefined): Promise<void> {
  return pause(1000, signal);
}

/** Settings for the start. */
interface StartInput extends Pick<ExecInput, "env" | "signal"> {
  readonly starter: Starter;
}

/** How often a start is tried again. */
const RETRIES = 5;

/**
 * Starts a plugin. A file cannot be started while a new version is copied over it,
 * so that case is retried for a moment.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `ExecPlugin`.
 */
async function start(
  path: string,
  input: StartInput,
  pauseForRetry: PauseForRetry,
): Promise<Deno.ChildProcess> {
  const { signal, starter } = input;
  let obstacle: unknown;
  for (let retries = RETRIES;; retries--) {
    if (signal?.aborted) {
      const { unstartedFailure } = await loadFailures();
      throw unstartedFailure(path, signal, obstacle);
    }
    checkChange();
    try {
      return starter(() => spawn(path, input));
    } catch (error) {
      obstacle = error;
    }
    if (retries === 0 || !isIncomplete(obstacle)) {
      throw (await loadFailures()).startFailure(path, obstacle);
    }
    await yieldIfLong(() => pauseForRetry(signal));
  }
}

function spawn(
  path: string,
  { env, signal }: StartInput,
): Deno.ChildProcess {
  const format = readFormat(path);
  if (format !== "program") {
    const Failure = format === "incomplete" ? IncompleteFileError : Error;
    throw new Failure("exec format error");
  }
  return new Deno.Command(path, {
    clearEnv: true,
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    // Makes it the leader of a process group, which can be killed as a whole.
    detached: signal !== undefined,
  }).spawn();
}

/** A file that is not complete yet. */
class IncompleteFileError extends Error {}

/** Reports whether a start failed because the file is still being copied. */
function isIncomplete(error: unknown): boolean {
  // Deno has no class and no code for ETXTBSY, which is 26 everywhere.
  return error instanceof IncompleteFileError ||
    error instanceof Error && error.message.endsWith("(os error 26)");
}
