/**
 * Which test files there are, and when each is run.
 *
 * Each file is run by a `deno test` of its own. That costs no more than one
 * for all, which makes a new isolate for each file anyway. So files can be
 * handed out one by one, none waits for a slow neighbour, and a process that
 * dies takes only its own file with it.
 *
 * @module
 */

import project from "../../deno.json" with { type: "json" };
import { durationOf, type Durations } from "./durations.ts";

/** Files that measure how fast flows are, and take their time for it. */
export const RATES: readonly string[] = [
  "plugins/bandwidth/traffic_test.ts",
  "tests/conformance/bandwidth_test.ts",
];

/**
 * Tests that may download, and use no node: of the tools that build, and of
 * machines in containers, whose root they make.
 */
const DOWNLOADING = [
  "scripts/",
  "tests/any_libc_test.ts",
  "tests/systemd_test.ts",
];

/** Reports whether a file, or an argument of `deno test`, may download. */
export function mayDownload(path: string): boolean {
  return DOWNLOADING.some((start) => path.startsWith(start));
}

/** They load cores by many processes, and kill some of them. */
export const STRESS = /_(?:stress|soak)_test\.ts$/;

/** Source: docs.deno.com/runtime/reference/cli/test, `{*_,*.,}test.{ts, tsx, mts, js, mjs, jsx}`. */
const TEST_FILE = /(?:^|[/_.])test\.(?:m?[jt]s|[jt]sx)$/;

/** A file, mostly of tests. */
export interface TestFile {
  /** From the project's root. */
  readonly path: string;
  /** Its size in bytes: of two files, the larger one may take longer. */
  readonly size: number;
}

/** Lists the files that `deno test` would find. */
export function listTestFiles(root: URL): TestFile[] {
  const excluded = [...project.exclude, ...project.test.exclude];
  return listFiles(root, "", excluded)
    .filter(({ path }) => TEST_FILE.test(path));
}

/**
 * Lists all files in a directory, but no hidden ones.
 *
 * @param directory From the project's root, with a slash at the end unless empty
 */
export function listFiles(
  root: URL,
  directory: string,
  excluded: readonly string[] = [],
): TestFile[] {
  const base = decodeURIComponent(root.pathname);
  return [...Deno.readDirSync(`${base}${directory}`)].flatMap((entry) => {
    const path = `${directory}${entry.name}`;
    if (entry.name.startsWith(".") || entry.name === "node_modules") return [];
    if (excluded.includes(path)) return [];
    if (entry.isDirectory) return listFiles(root, `${path}/`, excluded);
    return [{ path, size: Deno.statSync(`${base}${path}`).size }];
  });
}

/**
 * Puts files in order: those that take longest first, so that none of them is
 * the last that runs, and short ones fill up the end.
 */
export function planFiles(
  files: readonly TestFile[],
  durations: Durations,
): string[] {
  return files
    .toSorted((a, b) =>
      durationOf(durations, b.path) - durationOf(durations, a.path) ||
      b.size - a.size
    )
    .map(({ path }) => path);
}
