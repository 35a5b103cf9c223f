/**
 * Which test files there are, what they need, and which of them one process
 * runs.
 *
 * A file that takes long is run by a `deno test` of its own. Others share one
 * with their neighbours, so that the modules they have in common are loaded
 * once: for most of them, that is what takes longest.
 *
 * @module
 */

import project from "../../deno.json" with { type: "json" };
import slow from "./slow_files.json" with { type: "json" };

/** Files that take more than some eight seconds on an idle machine, the longest first. */
export const SLOW: readonly string[] = slow;

/** Files that measure how fast flows are, and take their time for it. */
export const RATES: readonly string[] = [
  "plugins/bandwidth/traffic_test.ts",
  "tests/conformance/bandwidth_test.ts",
];

/** They load cores by many processes, and kill some of them. */
export const STRESS = /[/_](?:stress|soak)_test\.ts$/;

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

/** Whole programs, several plugins beside each other, other kernels and tools. */
const WHOLE =
  /^scripts\/|(?:^|\/)tests\/(?!conformance\/)|[/_](?:parity|process|hosts)_test\.ts$/;

/** Rows that belong to a commit although they take long. */
const FAST_ROWS =
  /^tests\/conformance\/(?:requirements|requirements_chained|libcni_api_list|multus_gc|ptp)_test\.ts$/;

/** Reports whether a file is for the run before a commit: quick, and about one part. */
export function isFast(path: string): boolean {
  return !WHOLE.test(path) && !STRESS.test(path) && !RATES.includes(path) &&
    (FAST_ROWS.test(path) || !SLOW.includes(path));
}

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

/** Filters the files that arguments of `deno test` name, as files or directories. */
export function selectNamed(
  files: readonly TestFile[],
  args: readonly string[],
): TestFile[] {
  return files.filter(({ path }) =>
    args.some((arg) =>
      path === arg || path.startsWith(arg.replace(/\/*$/, "/"))
    )
  );
}

/** Reads a file of the project by its path from the root. */
export type ReadSource = (path: string) => string;

/** A relative import, of values or types, at the start of a line. */
const IMPORT = /^(?:import|export|\}).*?\bfrom\s+"(\.[^"]+)"/gm;

/** Modules that only tests import: in directories of theirs, and a plugin's `testing.ts`. */
const HARNESS = /(?:^|\/)(?:tests|testing)(?:\/|\.ts$)/;

/** Lists a test file and the modules of tests that it imports. */
export function listHarness(path: string, read: ReadSource): string[] {
  const found = new Set([path]);
  for (const one of found) {
    for (const [, specifier = ""] of read(one).matchAll(IMPORT)) {
      const imported = new URL(specifier, `file:///${one}`).pathname.slice(1);
      if (HARNESS.test(imported)) found.add(imported);
    }
  }
  return [...found];
}

/** Reports whether a file starts executables: their directory is a variable. */
export function needsExecutables(path: string, read: ReadSource): boolean {
  return listHarness(path, read).some((one) => read(one).includes("CNI_BIN"));
}

/** Files that one process runs. */
export interface Batch {
  /** The file, or the first of several. */
  readonly name: string;
  readonly paths: readonly string[];
}

/** More would keep a processor busy while the others have nothing left to do. */
const MOST_IN_BATCH = 12;

/**
 * Shares files out to processes, those that take longest first, so that short
 * ones fill up the end.
 *
 * @param slow Files that take long, the longest first
 */
export function planBatches(
  files: readonly TestFile[],
  slow: readonly string[] = SLOW,
): Batch[] {
  const paths = files.map(({ path }) => path).toSorted();
  const isAlone = (path: string): boolean =>
    slow.includes(path) || STRESS.test(path) || RATES.includes(path);
  const long = slow.filter((path) => paths.includes(path));
  const alone = paths.filter((path) => isAlone(path) && !long.includes(path));
  const others = paths.filter((path) => !isAlone(path));
  const sizes = new Map(files.map(({ path, size }) => [path, size]));
  const sizeOf = (batch: Batch): number =>
    batch.paths.reduce((sum, path) => sum + (sizes.get(path) ?? 0), 0);
  // Neighbours import the same.
  const batches = [
    ...alone.map((path) => makeBatch(path)),
    ...makeBatches(others.filter(mayDownload)),
    ...makeBatches(others.filter((path) => !mayDownload(path))),
  ].toSorted((a, b) => sizeOf(b) - sizeOf(a));
  return [...long.map((path) => makeBatch(path)), ...batches];
}

/** Makes batches of about the same number of files. */
function makeBatches(paths: readonly string[]): Batch[] {
  const count = Math.ceil(paths.length / MOST_IN_BATCH);
  return Array.from({ length: count }, (_, index) => {
    const [start, end] = [index, index + 1]
      .map((at) => Math.round(at * paths.length / count));
    return makeBatch(...paths.slice(start, end));
  });
}

function makeBatch(...paths: readonly string[]): Batch {
  const [first = ""] = paths;
  const more = paths.length - 1;
  return { name: more === 0 ? first : `${first} and ${more} more`, paths };
}
