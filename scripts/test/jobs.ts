/**
 * The jobs of a run: commands of deno, and how each is judged.
 *
 * @module
 */

import project from "../../deno.json" with { type: "json" };
import {
  judgeCommand,
  judgeCounting,
  judgeShard,
  type Outcome,
} from "./outcome.ts";
import { type Batch, mayDownload, STRESS, type TestFile } from "./plan.ts";
import type { ShardEnd } from "./run_shard.ts";
import { ROOTLESS_FILTER, selectRootless } from "./select_rootless.ts";

/** Something to run. */
export interface Job {
  readonly name: string;
  readonly args: readonly string[];
  /** What it waits for, and where it runs; nothing by default. */
  readonly needs?: "executables" | "node" | "rootless node";
  /** Whether it loads cores by many processes: few of these run together. */
  readonly isStress?: boolean;
  readonly judge: (name: string, end: ShardEnd) => Outcome;
}

/** How test files are run. */
export interface TestSetting {
  /** Flags for any deno command. */
  readonly flags: readonly string[];
  /** More arguments for each `deno test`; none by default. */
  readonly testArgs?: readonly string[];
}

/** Where tests run. */
export interface TestPlace {
  /** A command that enters the namespaces of a node, in front of those in one. */
  readonly enter: readonly string[];
  /** The same of a node in a user namespace; a text if none can be made: why. */
  readonly enterRootless: readonly string[] | string;
  /** Variables for all jobs that wait for it. */
  readonly env: Readonly<Record<string, string>>;
}

/** Loads the test files that its arguments name. */
const LOADER = decodeURIComponent(
  new URL("load_files.ts", import.meta.url).pathname,
);

/** Returns the job that runs test files in one process. */
export function testFiles(
  { name, paths }: Batch,
  { flags, testArgs = [] }: TestSetting,
): Job {
  const what = paths.length === 1 ? paths : [LOADER, "--", ...paths];
  return {
    name,
    args: ["test", "-A", "--no-check", ...flags, ...testArgs, ...what],
    needs: paths.some(mayDownload) ? "executables" : "node",
    isStress: paths.some((path) => STRESS.test(path)),
    judge: judgeShard,
  };
}

/**
 * Returns the job that runs tests where root is nobody on the machine.
 *
 * @param files All files with tests
 * @param isAll Whether all conformance rows are run, or some for the newest
 *   version of the specification
 */
export function testRootless(
  files: readonly TestFile[],
  { flags }: TestSetting,
  isAll: boolean,
): Job {
  const filter = isAll ? [] : ["--filter", ROOTLESS_FILTER];
  const paths = selectRootless(files, isAll);
  return {
    name: "tests in a user namespace",
    args: ["test", "-A", "--no-check", ...flags, ...filter, ...paths],
    needs: "rootless node",
    judge: judgeShard,
  };
}

function check(name: string, args: readonly string[]): Job {
  return { name, args, judge: judgeCommand };
}

/** Returns the job that checks the types of everything. */
export function checkTypes(flags: readonly string[]): Job {
  return check("types", ["check", "-q", ...flags, "."]);
}

/** Returns the jobs that check what a commit must not break, beside its types. */
export function checkSources(): Job[] {
  return [
    check("lint", ["lint", "-q"]),
    check("format", ["fmt", "-q", "--check"]),
  ];
}

/** Returns the jobs that check how the whole fits together. */
export function checkWhole(flags: readonly string[]): Job[] {
  return [
    check("import cycles", [
      "run",
      "-A",
      ...flags,
      "scripts/import_cycles.ts",
    ]),
    check("docs", [
      "doc",
      "--lint",
      ...flags,
      ...Object.values(project.exports),
    ]),
  ];
}

/** Returns the job that runs a part of the tests in another kernel, which uses two processors. */
export function testKernel(flags: readonly string[]): Job {
  return {
    name: "tests in User-mode Linux",
    args: ["run", "-A", ...flags, "scripts/test_kernel.ts", "--core"],
    needs: "executables",
    judge: judgeCounting,
  };
}
