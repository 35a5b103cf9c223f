/**
 * Running a plugin as a process of its own.
 *
 * @module
 */

import { runToEnd } from "./child.ts";
import { pause } from "./deadline.ts";
import type { Invocation } from "./invoker.ts";
import { readFormat } from "./program_format.ts";

/** What a plugin's process is given. */
export type ExecInput = Pick<
  Invocation,
  "env" | "stdin" | "onStderr" | "signal" | "onProcess"
>;

/**
 * Runs the executable at `path`.
 *
 * It may leave a daemon behind. If that holds the plugin's output open, what it
 * writes within a second of the plugin's end is read, and no more.
 *
 * @param input With a signal the plugin gets a process group of its own; when
 *   the signal comes, the group is killed and the call fails, at most 200 ms later
 * @param pauseForRetry Waits while the executable is being written
 * @returns What it printed on stdout
 * @throws {CniError} The plugin's own error, else 999 with what is known of its end
 */
export async function execPlugin(
  path: string,
  { env, stdin, onStderr, signal, onProcess }: ExecInput,
  pauseForRetry: PauseForRetry = pauseOneSecond,
): Promise<string> {
  await onProcess?.();
  const startMs = performance.now();
  const child = await start(path, { env, signal }, pauseForRetry);
  const { success, ...ending } = await runToEnd(child, stdin, signal);
  if (ending.stderr) onStderr(ending.stderr);
  if (success) return ending.stdout;
  const elapsedMs = performance.now() - startMs;
  throw (await loadFailures()).failure(path, { ...ending, elapsedMs });
}

/** Loads what only a call that fails has a need of. */
function loadFailures(): Promise<typeof import("./failure.ts")> {
  return import("./failure.ts");
}

/** Waits before one more try to start a file that is being written. */
type PauseForRetry = (signal: AbortSignal | undefined) => Promise<void>;

function pauseOneSecond(signal: AbortSignal | undefined): Promise<void> {
  return pause(1000, signal);
}

/** How often a start is tried again. */
const RETRIES = 5;

/**
 * Starts a plugin. While somebody copies a new version over it, it cannot be
 * started, and for a moment it is worth waiting for.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `ExecPlugin`.
 */
async function start(
  path: string,
  input: Pick<ExecInput, "env" | "signal">,
  pauseForRetry: PauseForRetry,
): Promise<Deno.ChildProcess> {
  const { signal } = input;
  let obstacle: unknown;
  for (let retries = RETRIES;; retries--) {
    if (signal?.aborted) {
      const { unstartedFailure } = await loadFailures();
      throw unstartedFailure(path, signal, obstacle);
    }
    try {
      return spawn(path, input);
    } catch (error) {
      obstacle = error;
    }
    if (retries === 0 || !isUnfinished(obstacle)) {
      throw (await loadFailures()).startFailure(path, obstacle);
    }
    await pauseForRetry(signal);
  }
}

function spawn(
  path: string,
  { env, signal }: Pick<ExecInput, "env" | "signal">,
): Deno.ChildProcess {
  const format = readFormat(path);
  if (format !== "program") {
    const Failure = format === "unfinished" ? UnfinishedError : Error;
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

/** A file that is no program yet. */
class UnfinishedError extends Error {}

/** Says whether a start failed because of a file that is still being copied. */
function isUnfinished(error: unknown): boolean {
  // Deno has no class and no code for ETXTBSY, which is 26 everywhere.
  return error instanceof UnfinishedError ||
    error instanceof Error && error.message.endsWith("(os error 26)");
}
