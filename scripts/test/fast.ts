/**
 * The run before a commit: `deno task test --fast`.
 *
 * @module
 */

import { type Durations, isLong } from "./durations.ts";
import { RATES, STRESS } from "./plan.ts";

/** Whole programs, several plugins beside each other, other kernels and tools. */
const WHOLE = /^(?:scripts|tests(?!\/conformance\/))\//;

/** Reports whether a file is quick, and tests one part. */
export function isFast(path: string, durations: Durations): boolean {
  return !WHOLE.test(path) && !STRESS.test(path) && !RATES.includes(path) &&
    !isLong(durations, path);
}

/** The variables that have conformance rows run in one way only. */
export const ONE_WAY: Readonly<Record<string, string>> = {
  CNI_TEST_ONE_WAY: "1",
};
