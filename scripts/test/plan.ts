/**
 * Which test files there are, and when each is run, in which process.
 *
 * A file that takes long is run by a `deno test` of its own. Others share one
 * with their neighbours, so that the modules they have in common are loaded
 * once: for most of them, that is what takes longest.
 *
 * @module
 */

import project from "../../deno.json" with { type: "json" };
import { durationOf, type Durations, isLong } from "./durations.ts";

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

/** Files that one process runs. */
export interface Batch {
  /** The file, or the first of several. */
  readonly name: string;
  readonly paths: readonly string[];
}

/** More would keep a processor busy while the others have nothing left to do. */
const MOST_IN_BATCH = 12;

/**
 * A batch that took so many seconds has a file that takes long: each of its
 * files is run alone, so that this one is recorded as such.
 */
const TOO_LONG = 30;

/** Reports whether a file is run in a process of its own. */
function isAlone(path: string, durations: Durations): boolean {
  return isLong(durations, path) || STRESS.test(path) || RATES.includes(path);
}

/**
 * Shares files out to processes, those that take longest first, so that none of
 * them is the last that runs, and short ones fill up the end.
 */
export function planBatches(
  files: readonly TestFile[],
  durations: Durations,
): Batch[] {
  const sizes = new Map(files.map(({ path, size }) => [path, size]));
  const [alone, small] = partition(
    [...sizes.keys()].toSorted(),
    (path) => isAlone(path, durations),
  );
  // Neighbours import the same.
  const together = partition(small, mayDownload).flatMap(makeBatches);
  const [long, others] = partition(
    together,
    ({ name }) => durationOf(durations, name) >= TOO_LONG,
  );
  const batches = [
    ...[...alone, ...long.flatMap(({ paths }) => paths)].map((path) =>
      makeBatch(path)
    ),
    ...others,
  ];
  const sizeOf = ({ paths }: Batch): number =>
    paths.reduce((sum, path) => sum + (sizes.get(path) ?? 0), 0);
  return batches.toSorted((a, b) =>
    durationOf(durations, b.name) - durationOf(durations, a.name) ||
    sizeOf(b) - sizeOf(a)
  );
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

function partition<T>(
  all: readonly T[],
  isFirst: (one: T) => boolean,
): [first: T[], others: T[]] {
  return [all.filter(isFirst), all.filter((one) => !isFirst(one))];
}
