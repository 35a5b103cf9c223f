/**
 * Builds what tests compare with, or need, by Go from its module proxy: once,
 * into a directory that then stays.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { hasCommand } from "../../testing/capabilities.ts";
import { exists } from "../../base/files/io.ts";
import { describeError } from "../../base/error.ts";
import { GO_ENV, run } from "../project.ts";

/** Returns the file that a process locks while it builds a directory. */
export function lockOf(directory: string): string {
  return `${directory}.lock`;
}

/** A build that is under way. */
export interface RunningBuild {
  /** Resolves to the problem, or undefined if the directory exists. */
  readonly ended: Promise<string | undefined>;
}

/** One run of go. */
export interface GoRun {
  readonly args: readonly string[];
  readonly limitMs: number;
  /** Besides CGO_ENABLED=0, and what makes compilers faster. */
  readonly env?: Readonly<Record<string, string>>;
  /** Its working directory; `/` if undefined, where no go.mod counts. */
  readonly cwd?: string;
}

/** A build: its subject, place and program. */
export interface GoBuild {
  /** Appears complete, or not at all. */
  readonly directory: string;
  /** The go command: a name in PATH, or a path. */
  readonly go: string;
  /**
   * Builds into another directory, which does not exist yet.
   *
   * @param run Runs go; returns what it prints, and throws what went wrong
   */
  readonly make: (
    unfinished: string,
    run: (go: GoRun) => Promise<string>,
  ) => Promise<void>;
}

/**
 * Starts to build a directory, unless it is there. Returns as soon as the lock
 * is held, so whoever asks for the lock afterwards waits for the end of the
 * build.
 *
 * Other processes may build the same directory: they take turns.
 *
 * @param stop Ends the build
 */
export async function startBuild(
  stop: AbortSignal,
  build: GoBuild,
): Promise<RunningBuild> {
  if (exists(build.directory)) return { ended: Promise.resolve(undefined) };
  if (!build.go.includes("/") && !hasCommand(build.go)) {
    return { ended: Promise.resolve(`PATH has no "${build.go}"`) };
  }
  await Deno.mkdir(dirname(build.directory), { recursive: true });
  const lock = await Deno.open(lockOf(build.directory), {
    create: true,
    write: true,
  });
  await lock.lock(true);
  const ended = buildAndRelease(lock, stop, build);
  // The tests do without, whatever went wrong.
  const explain = (error: unknown): string =>
    stop.aborted
      ? "it was ended early"
      : describeError(error).split("\n").slice(-2).join(" ");
  return { ended: ended.then(() => undefined, explain) };
}

async function buildAndRelease(
  lock: Deno.FsFile,
  stop: AbortSignal,
  { directory, go, make }: GoBuild,
): Promise<void> {
  using _ = lock;
  // Another process may have built it while this one waited for the lock.
  if (exists(directory)) return;
  const unfinished = `${directory}.new`;
  if (exists(unfinished)) await Deno.remove(unfinished, { recursive: true });
  await make(unfinished, (run) => runGo(go, run, stop));
  await Deno.rename(unfinished, directory);
}

async function runGo(
  go: string,
  { args, limitMs, env = {}, cwd = "/" }: GoRun,
  stop: AbortSignal,
): Promise<string> {
  const { stdout } = await run(go, args, {
    cwd,
    env: { CGO_ENABLED: "0", ...GO_ENV, ...env },
    signal: AbortSignal.any([stop, AbortSignal.timeout(limitMs)]),
  });
  return stdout;
}
