/**
 * The run before a commit: `deno task test --fast`.
 *
 * @module
 */

import { type Durations, isLong } from "./durations.ts";
import { RATES, STRESS } from "./plan.ts";

/** Whole programs, several plugins beside each other, other kernels and tools. */
const WHOLE = /^(?:scripts|tests(?!\/conformance\/))\//;

/**
 * Rows that belong to a commit although they take long; those of `bridge` and of
 * pods take as long as all these together.
 */
const LONG_ROWS =
  /^tests\/conformance\/(?:demands|demands_chained|libcni_api_list|multus_gc|ptp)_test\.ts$/;

/** Reports whether a file is quick, and tests one part. */
export function isFast(path: string, durations: Durations): boolean {
  return !WHOLE.test(path) && !STRESS.test(path) && !RATES.includes(path) &&
    (LONG_ROWS.test(path) || !isLong(durations, path));
}

/** The variables that have conformance rows run in one way only. */
export const ONE_WAY: Readonly<Record<string, string>> = {
  CNI_TEST_ONE_WAY: "1",
};
