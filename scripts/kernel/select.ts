/**
 * Says which test files have to do with the kernel.
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

/** These declare {@linkcode NEEDS_NAMESPACES} for others. */
const CAPABILITIES = "testing/capabilities.ts";

/**
 * Plugins whose rows are about no links, or need nftables, which this one lacks;
 * and demands, which are about plugins that any kernel can do.
 */
const ELSEWHERE =
  "debug|demands|dhcp|firewall|flannel|masquerade|multus|portmap";

/**
 * The gate's part: conformance rows of plugins that change links, addresses or
 * routes, and requests for VLANs.
 */
const CORE = new RegExp(
  `^(?:tests/conformance/(?!(?:${ELSEWHERE})_)|ffi/rtnl/bridge_vlan_)`,
);

/** Tests of scripts, which are not about the kernel. */
const OF_SCRIPTS = /^(?:scripts\/|tests\/bench_test\.ts$)/;

/**
 * Filters the tests of the gate's part: a row for each version of the
 * specification is run for the newest only, since the kernel does not know
 * versions. It has names that end in 1.1.0, or not in a version.
 */
export const CORE_FILTER = String.raw`/(?:, 1\.1\.0|[^.].|.[^0-9])$/`;

/**
 * Lists the test files that work in network namespaces: those that say so by
 * `rootTest()` or the like, themselves or in a module for tests that they
 * import, without tests of scripts.
 */
export function selectKernelPart(
  files: readonly TestFile[],
  read: ReadSource,
): TestFile[] {
  return files.filter(({ path }) =>
    !OF_SCRIPTS.test(path) &&
    listHarness(path, read).some((one) =>
      one !== CAPABILITIES && NEEDS_NAMESPACES.test(read(one))
    )
  );
}

/** Says whether a file is in the part that the gate runs. */
export function isCore(path: string): boolean {
  return CORE.test(path);
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
