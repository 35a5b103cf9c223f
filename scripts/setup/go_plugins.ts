/**
 * Builds the newest Go plugins for the tests that compare with them, and Go
 * programs that check what this project has for others. Run as a program, it
 * builds all of them and waits.
 *
 * @module
 */

import {
  CNITOOL_RELEASE,
  directoryOfTool,
  NEWEST_DIRECTORY,
  NEWEST_RELEASE,
  TOOLS,
} from "../../tests/_harness/peers.ts";
import { type RunningBuild, startBuild } from "./go_build.ts";

const PLUGINS = "github.com/containernetworking/plugins";
const CNI = "github.com/containernetworking/cni";

/** How long the module proxy may take to name a release. */
const PROBE_MS = 30_000;
/** How long a build may take on a busy machine, downloads included. */
const BUILD_MS = 20 * 60_000;

/** What is built, where, and by what. The tests of this file replace it. */
export interface Build {
  /** Appears complete, or not at all. */
  readonly directory: string;
  /** The go command: a name in PATH, or a path. */
  readonly go: string;
  /** Packages with their versions: one `go install` for each. */
  readonly packages: readonly string[];
  /** An earlier build, which compiles packages that this one needs, too. */
  readonly after?: Promise<unknown>;
}

/**
 * Leave out what debuggers need, which takes a fifth of the time. The code is the
 * same. All builds have them: Go compiles its library for each set of flags.
 */
const FLAGS = ["-gcflags=all=-dwarf=false", "-ldflags=-s -w"];

const NEWEST: Build = {
  directory: NEWEST_DIRECTORY,
  go: "go",
  packages: [
    `${PLUGINS}/plugins/...@${NEWEST_RELEASE}`,
    `${CNI}/cnitool@${CNITOOL_RELEASE}`,
  ],
};

/** Describes the build of a program that tests run. */
function toolBuild(name: keyof typeof TOOLS): Build {
  return {
    directory: directoryOfTool(name),
    go: "go",
    packages: [TOOLS[name]],
  };
}

/**
 * Starts to build the newest Go plugins, unless they are there. Returns as soon
 * as the lock is held.
 *
 * @param stop Ends the build
 */
export function startGoPlugins(
  stop: AbortSignal,
  { directory, go, packages, after }: Build = NEWEST,
): Promise<RunningBuild> {
  return startBuild(stop, {
    directory,
    go,
    async make(unfinished, run): Promise<void> {
      await after;
      // Where packets are dropped, the proxy would be asked for minutes.
      const probe = ["list", "-m", `${PLUGINS}@${NEWEST_RELEASE}`];
      await run({ args: probe, limitMs: PROBE_MS });
      for (const name of packages) {
        const env = { GOBIN: unfinished };
        const args = ["install", ...FLAGS, name];
        await run({ args, limitMs: BUILD_MS, env });
      }
    },
  });
}

/**
 * Starts to build the newest plugins and some of {@linkcode TOOLS}, unless they
 * are there.
 *
 * @param stop Ends the builds
 */
export async function startGoPrograms(
  stop: AbortSignal,
  ...tools: readonly (keyof typeof TOOLS)[]
): Promise<RunningBuild> {
  const plugins = await startGoPlugins(stop);
  const others = await Promise.all(
    tools.map((name) =>
      startGoPlugins(stop, { ...toolBuild(name), after: plugins.ended })
    ),
  );
  const ended = Promise.all([plugins, ...others].map(({ ended }) => ended));
  return {
    ended: ended.then((all) => all.find((trouble) => trouble !== undefined)),
  };
}

if (import.meta.main) {
  const { ended } = await startGoPrograms(
    new AbortController().signal,
    ...Object.keys(TOOLS) as (keyof typeof TOOLS)[],
  );
  const trouble = await ended;
  if (trouble !== undefined) throw new Error(trouble);
}
