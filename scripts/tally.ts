/**
 * Counts what passed, failed and was skipped.
 *
 * @module
 */

/** Counts of tests and their steps, or of the stages of the gate. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

// deno-lint-ignore no-control-regex -- the terminal's own codes are meant
const COLORS = /\x1b\[[\d;]*m/g;

/** Returns a text without colours. */
export function stripColors(text: string): string {
  return text.replaceAll(COLORS, "");
}

/** Adds up tallies. */
export function sumTallies(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => ({
    passed: sum.passed + tally.passed,
    failed: sum.failed + tally.failed,
    skipped: sum.skipped + tally.skipped,
  }), { passed: 0, failed: 0, skipped: 0 });
}

/** Renders a tally as the line that ends a run. */
export function formatTally({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/** Finds the last line of an output that {@linkcode formatTally} wrote. */
export function findTally(output: string): Tally | undefined {
  const line = /^(\d+) passed, (\d+) failed, (\d+) skipped$/gm;
  const [, passed, failed, skipped] = [...output.matchAll(line)].at(-1) ?? [];
  if (passed === undefined) return undefined;
  return {
    passed: Number(passed),
    failed: Number(failed),
    skipped: Number(skipped),
  };
}

/** Adds the tests and steps that a summary such as `2 passed (3 steps)` counts. */
function countInSummary(summary: string, word: string): number {
  const count = new RegExp(`(\\d+) ${word}(?: \\((\\d+) steps?\\))?`);
  const [, tests, steps] = count.exec(summary) ?? [];
  return Number(tests ?? 0) + Number(steps ?? 0);
}

/**
 * Finds the summary in the output of `deno test`. Steps count as tests, and
 * tests that `--filter` left out do not count.
 *
 * @returns `undefined` where the tests never ran, as after a type error
 */
export function findTestSummary(output: string): Tally | undefined {
  const lines = stripColors(output).matchAll(/^(?:ok|FAILED) \|.*$/gm);
  const summary = [...lines].at(-1)?.[0];
  if (summary === undefined) return undefined;
  return {
    passed: countInSummary(summary, "passed"),
    failed: countInSummary(summary, "failed"),
    skipped: countInSummary(summary, "ignored"),
  };
}

/**
 * Counts the tests of the conformance lists in the output of `deno test`, by
 * the name that `tests/_harness/conformance.ts` gives them.
 */
export function countConformance(output: string): Tally {
  const rows = [
    ...stripColors(output).matchAll(
      /^conformance .* \.\.\. (ok|FAILED|ignored)\b/gm,
    ),
  ].map(([, outcome]) => outcome);
  const count = (outcome: string): number =>
    rows.filter((row) => row === outcome).length;
  return {
    passed: count("ok"),
    failed: count("FAILED"),
    skipped: count("ignored"),
  };
}
