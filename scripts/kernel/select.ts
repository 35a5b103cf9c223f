/**
 * Says which test files have to do with the kernel, and which tests the gate runs in
 * another one.
 *
 * @module
 */

import {
  listHarness,
  RATES,
  type ReadSource,
  STRESS,
  type TestFile,
} from "../test/files.ts";

/** What a test names that works in network namespaces, or skips without them. */
const NEEDS_NAMESPACES = /\b(?:requireRoot|rootTest|needsRoot|canUseNetns)\b/;

/** What a test, or a module for tests, names that may skip for the kernel. */
const NEEDS_FEATURES =
  /\bneeds(?:Links|Kind|BridgeVlans)\b|\bneeds \S+ links\b/;

/** These declare {@linkcode NEEDS_NAMESPACES} for others. */
const CAPABILITIES = "testing/capabilities.ts";

/** Tests of scripts, which are not about the kernel. */
const OF_SCRIPTS = /^(?:scripts\/|tests\/bench_test\.ts$)/;

/**
 * Lists the test files that work in network namespaces: those that say so by
 * `rootTest()` or the like, themselves or in a module for tests that they
 * import, without tests of scripts.
 */
export function selectKernelPart(
  files: readonly TestFile[],
  read: ReadSource,
): TestFile[] {
  return select(files, read, NEEDS_NAMESPACES)
    .filter(({ path }) => !OF_SCRIPTS.test(path));
}

function select(
  files: readonly TestFile[],
  read: ReadSource,
  pattern: RegExp,
): TestFile[] {
  return files.filter(({ path }) =>
    listHarness(path, read).some((one) =>
      one !== CAPABILITIES && pattern.test(read(one))
    )
  );
}

/**
 * Lists the files that may have tests which this machine's kernel cannot run, but
 * another one can: without those that compare with Go plugins.
 */
export function selectFeatureTests(
  files: readonly TestFile[],
  read: ReadSource,
): TestFile[] {
  return select(files, read, NEEDS_FEATURES).filter(({ path }) =>
    !OF_SCRIPTS.test(path) && !path.endsWith("parity_test.ts") &&
    findObstacle(path) === undefined
  );
}

/**
 * Says why a file of the kernel part cannot run in User-mode Linux, which has
 * one CPU and makes page faults and system calls several times as slow.
 * Conformance rows can: those that compare rates have limits far below them.
 *
 * @returns `undefined` if it can
 */
export function findObstacle(path: string): string | undefined {
  if (STRESS.test(path)) return "loads several CPUs";
  const isRow = path.startsWith("tests/conformance/");
  return RATES.includes(path) && !isRow ? "measures rates" : undefined;
}

/** The end of the name of a test that skips for the kernel. */
const LACKS =
  / \(skipped: needs (?:a kernel with|the device of User-mode Linux|\S+ links).*$/;

/** Returns the name of a test that skips for the kernel, as it is where it runs. */
export function findLacking(name: string): string | undefined {
  return LACKS.test(name) ? name.replace(LACKS, "") : undefined;
}

/** Returns a filter for tests whose names begin so. */
export function filterOf(names: readonly string[]): string {
  const patterns = names.map((name) =>
    name.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&")
  );
  return `/^(?:${patterns.join("|")})/`;
}

/** Shares files out so that all parts are about as large; only the first may be empty. */
export function shareOut(
  files: readonly TestFile[],
  parts: number,
): TestFile[][] {
  const shares = Array.from({ length: parts }, () => [] as TestFile[]);
  const sizeOf = (share: readonly TestFile[]): number =>
    share.reduce((sum, { size }) => sum + size, 0);
  for (const file of files.toSorted((a, b) => b.size - a.size)) {
    shares.toSorted((a, b) => sizeOf(a) - sizeOf(b))[0]?.push(file);
  }
  return shares.filter((share, index) => index === 0 || share.length > 0);
}
