/**
 * Judges a part of the tests by what its process printed and how it ended.
 *
 * @module
 */

import {
  countConformance,
  findTally,
  findTestSummary,
  sumTallies,
  type Tally,
} from "../tally.ts";
import { isRow } from "./page.ts";
import {
  type Failure,
  findFailures,
  findReport,
  readOutput,
  type ShardOutput,
  tallyResults,
  type TestResult,
} from "./read_output.ts";
import type { ShardEnd } from "./run_shard.ts";

/** The outcome of a part of the tests. */
export interface Outcome {
  readonly tally: Tally;
  /** The rows of the conformance lists among them. */
  readonly conformance: Tally;
  /** How each of these ended. */
  readonly rows: readonly TestResult[];
  /** The names of skipped tests, with the reason. */
  readonly skipped: readonly string[];
  readonly failures: readonly Failure[];
  /** The last of the failures, if it is not a test but how the process ended. */
  readonly trouble: Failure | undefined;
  /** The resource that the machine ran out of, if that made tests fail. */
  readonly limit: string | undefined;
  /** The full report of the failures. */
  readonly report: string;
}

/** Resources that a machine can run out of, and the programs' words for it. */
const LIMITS: readonly (readonly [what: string, pattern: RegExp])[] = [
  [
    "threads or processes",
    /unable to create worker thread|pthread_create|[Cc]annot fork|fork: retry|Resource temporarily unavailable|os error 11\b/,
  ],
  [
    "memory",
    /Cannot allocate memory|os error 12\b|JavaScript heap out of memory|ENOMEM/,
  ],
  ["disk", /No space left on device|Disk quota exceeded|os error (28|122)\b/],
  ["file descriptors", /Too many open files|os error (23|24)\b/],
];

/** Finds what the machine ran out of, in the output about failures. */
function findLimit(text: string): string | undefined {
  return LIMITS.find(([, pattern]) => pattern.test(text))?.[0];
}

/** How many lines of output tell why or where a process ended. */
const SOME_LINES = 12;

/**
 * Judges a `deno test`. An end that is not good, such as by a signal, is a
 * failure beside those of the tests.
 *
 * @param name What was run
 */
export function judgeShard(name: string, end: ShardEnd): Outcome {
  const output = readOutput(end.output);
  const summary = findTestSummary(output.own);
  const tests = summary ?? tallyResults(output.results);
  const report = findReport(output.own);
  const trouble = findTrouble(name, end, {
    place: summary === undefined ? describePlace(output) : undefined,
    isExplained: tests.failed > 0,
  });
  const troubles = trouble === undefined ? [] : [trouble];
  const failed = report === "" ? listFailed(output) : findFailures(report);
  const parts = [output.failedTests, report, formatFailures(troubles)];
  const text = parts.filter((part) => part !== "").join("\n\n");
  return {
    tally: { ...tests, failed: tests.failed + troubles.length },
    conformance: countConformance(output.own),
    rows: output.results.filter(({ name }) => isRow(name)),
    skipped: output.results
      .filter(({ outcome }) => outcome === "ignored").map(({ name }) => name),
    failures: [...failed, ...troubles],
    trouble,
    limit: findLimit(text),
    report: text,
  };
}

/** Judges a command that is one test: it passes, or it fails. */
export function judgeCommand(name: string, end: ShardEnd): Outcome {
  if (end.code === 0 && end.signal === null) {
    return { ...NOTHING, tally: { passed: 1, failed: 0, skipped: 0 } };
  }
  const { code, signal, stopped, output } = end;
  const why = stopped ?? signal ?? `exit code ${code}`;
  const failure = { name: `${name} failed: ${why}`, lines: firstLines(output) };
  return { ...judgeFailure(failure), report: output.trim() };
}

/** Judges a command that counts its tests in its last line. */
export function judgeCounting(name: string, end: ShardEnd): Outcome {
  const outcome = judgeCommand(name, end);
  const tally = findTally(end.output);
  if (tally === undefined) {
    return outcome.trouble === undefined
      ? judgeFailure({ name: `${name} counted nothing`, lines: [] })
      : outcome;
  }
  // What failed is counted: that is why the command did.
  if (tally.failed > 0) return { ...outcome, tally };
  return { ...outcome, tally: sumTallies([tally, outcome.tally]) };
}

/** Judges a file that was not run as one failure. */
export function judgeUnrun(names: readonly string[], why: string): Outcome {
  const more = names.length - SOME_LINES;
  const lines = names.slice(0, SOME_LINES);
  return judgeFailure({
    name: `Not run (${names.length}): ${why}`,
    lines: more > 0 ? [...lines, `and ${more} more`] : lines,
  });
}

/** Judges what was skipped as a whole. */
export function judgeSkipped(name: string): Outcome {
  const tally = { passed: 0, failed: 0, skipped: 1 };
  return { ...NOTHING, tally, skipped: [name] };
}

const NOTHING: Outcome = {
  tally: sumTallies([]),
  conformance: sumTallies([]),
  rows: [],
  skipped: [],
  failures: [],
  trouble: undefined,
  limit: undefined,
  report: "",
};

function judgeFailure(trouble: Failure): Outcome {
  const tally = { passed: 0, failed: 1, skipped: 0 };
  return { ...NOTHING, tally, failures: [trouble], trouble };
}

/** Renders failures briefly. */
export function formatFailures(failures: readonly Failure[]): string {
  return failures.map(({ name, lines }) =>
    [name, ...lines.map((line) => `    ${line}`)].join("\n")
  ).join("\n");
}

/** Explains how a process ended. */
interface Circumstances {
  /** Where it ended, if that was before its end. */
  readonly place: string | undefined;
  /** Whether a test failed, which makes the exit code bad. */
  readonly isExplained: boolean;
}

/** Finds problems other than failed tests. */
function findTrouble(
  name: string,
  end: ShardEnd,
  circumstances: Circumstances,
): Failure | undefined {
  const trouble = describeTrouble(end, circumstances);
  if (trouble === undefined) return undefined;
  return { name: `${name} ${trouble}`, lines: lastLines(end.output) };
}

function describeTrouble(
  { code, signal, stopped, leftBehind }: ShardEnd,
  { place, isExplained }: Circumstances,
): string | undefined {
  const where = place ?? "after its tests";
  if (stopped !== undefined) return `was ended ${where}: ${stopped}`;
  if (signal !== null) return `died of ${signal} ${where}`;
  if (place !== undefined) return `ended ${place}, with exit code ${code}`;
  if (leftBehind) return "left a process behind that kept its output open";
  const isGood = code === 0 || isExplained;
  return isGood
    ? undefined
    : `ended with exit code ${code}, but no test failed`;
}

function describePlace({ running, results }: ShardOutput): string {
  if (running !== undefined) return `in the test "${running}"`;
  const last = results.at(-1);
  return last === undefined
    ? "before its first test"
    : `after the test "${last.name}"`;
}

/** Lists what failed in a process that died before it could report on that. */
function listFailed({ results }: ShardOutput): Failure[] {
  return results.filter(({ outcome }) => outcome === "FAILED")
    .map(({ name }) => ({ name, lines: [] }));
}

function firstLines(output: string): string[] {
  return listLines(output).slice(0, SOME_LINES);
}

function lastLines(output: string): string[] {
  return listLines(output).slice(-SOME_LINES);
}

function listLines(output: string): string[] {
  return output.split("\n").filter((line) => line.trim() !== "");
}
