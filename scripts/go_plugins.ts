/**
 * Builds the newest Go plugins for the tests that compare with them, and Go
 * programs that check what this project has for others. Run as a program, it waits
 * for both.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { hasCommand } from "../testing/capabilities.ts";
import {
  CNITOOL_RELEASE,
  lockOf,
  NEWEST_DIRECTORY,
  NEWEST_RELEASE,
  TOOLS,
  TOOLS_DIRECTORY,
} from "../tests/_harness/peers.ts";
import { exists } from "./exists.ts";

const PLUGINS = "github.com/containernetworking/plugins";
const CNI = "github.com/containernetworking/cni";

/** How long the module proxy may take to name a release. */
const PROBE_MS = 30_000;
/** How long the build may take, downloads included. */
const BUILD_MS = 6 * 60_000;

/** What is built, where, and by what. The tests of this file replace it. */
export interface Build {
  /** Appears complete, or not at all. */
  readonly directory: string;
  /** The go command: a name in PATH, or a path. */
  readonly go: string;
  /** Packages with their versions: one `go install` for each. */
  readonly packages: readonly string[];
}

const NEWEST: Build = {
  directory: NEWEST_DIRECTORY,
  go: "go",
  packages: [
    `${PLUGINS}/plugins/...@${NEWEST_RELEASE}`,
    `${CNI}/cnitool@${CNITOOL_RELEASE}`,
  ],
};

/** What {@linkcode startGoPlugins} builds for tests that run these programs. */
export const GO_TOOLS: Build = {
  directory: TOOLS_DIRECTORY,
  go: "go",
  packages: Object.values(TOOLS),
};

/** A build that is under way. */
export interface RunningBuild {
  /** Resolves to the problem, or undefined if the plugins exist. */
  readonly ended: Promise<string | undefined>;
}

/**
 * Starts to build the newest Go plugins, unless they are there. Returns as soon
 * as the lock is held, so whoever asks for the lock afterwards waits for the
 * end of the build.
 *
 * Other processes may build the same directory: they take turns.
 *
 * @param stop Ends the build
 */
export async function startGoPlugins(
  stop: AbortSignal,
  build: Build = NEWEST,
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
  // The tests do without the plugins, whatever went wrong.
  return { ended: ended.catch(String) };
}

async function buildAndRelease(
  lock: Deno.FsFile,
  stop: AbortSignal,
  build: Build,
): Promise<string | undefined> {
  using _ = lock;
  // Another process may have built it while this one waited for the lock.
  if (exists(build.directory)) return undefined;
  const unfinished = `${build.directory}.new`;
  if (exists(unfinished)) await Deno.remove(unfinished, { recursive: true });
  // Where packets are dropped, the proxy would be asked for minutes.
  const probe = ["list", "-m", `${PLUGINS}@${NEWEST_RELEASE}`];
  let trouble = await runGo(build.go, probe, stop, PROBE_MS);
  for (const name of build.packages) {
    const env = { GOBIN: unfinished };
    trouble ??= await runGo(build.go, ["install", name], stop, BUILD_MS, env);
  }
  if (trouble === undefined) await Deno.rename(unfinished, build.directory);
  return trouble;
}

/** Returns what went wrong. */
async function runGo(
  go: string,
  args: readonly string[],
  stop: AbortSignal,
  limitMs: number,
  env: Readonly<Record<string, string>> = {},
): Promise<string | undefined> {
  const limit = AbortSignal.timeout(limitMs);
  const { success, stderr } = await new Deno.Command(go, {
    args: [...args],
    // No go.mod of a directory above counts.
    cwd: "/",
    env: { CGO_ENABLED: "0", ...env },
    signal: AbortSignal.any([stop, limit]),
    stdin: "null",
    stdout: "null",
  }).output();
  if (success) return undefined;
  const what = `go ${args.join(" ")}`;
  if (stop.aborted) return `${what}: ended early`;
  if (limit.aborted) return `${what}: no end after ${limitMs / 1000} s`;
  const said = new TextDecoder().decode(stderr).trim().split("\n");
  return `${what}: ${said.slice(-2).join(" ")}`;
}

if (import.meta.main) {
  const { signal } = new AbortController();
  for (const build of [NEWEST, GO_TOOLS]) {
    const { ended } = await startGoPlugins(signal, build);
    const trouble = await ended;
    if (trouble !== undefined) throw new Error(trouble);
  }
}
