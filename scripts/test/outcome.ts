/**
 * Judges a process by what it printed and how it ended. deno's JUnit report
 * would be easier to read, but has no word on a module that fails to load, and a
 * process that dies does not write it.
 *
 * @module
 */

/** Counts of tests and their steps, and of checks. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const NOTHING: Tally = { passed: 0, failed: 0, skipped: 0 };

/** Adds up tallies. */
export function sumTallies(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => ({
    passed: sum.passed + tally.passed,
    failed: sum.failed + tally.failed,
    skipped: sum.skipped + tally.skipped,
  }), NOTHING);
}

/** Renders a tally as the line that ends a run. */
export function formatTally({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/** Finds the last line of an output that {@linkcode formatTally} wrote. */
export function findTally(output: string): Tally | undefined {
  const line = /^(\d+) passed, (\d+) failed, (\d+) skipped$/gm;
  const last = [...output.matchAll(line)].at(-1);
  if (last === undefined) return undefined;
  const [passed = 0, failed = 0, skipped = 0] = last.slice(1).map(Number);
  return { passed, failed, skipped };
}

/** How a process ended. */
export interface ProcessEnd {
  /** Its output, stdout and stderr in order of arrival. */
  readonly output: string;
  /** Its exit code; meaningless if a signal ended it. */
  readonly code: number;
  /** The signal that ended it. */
  readonly signal: Deno.Signal | null;
  /** Why we ended it, if we did. */
  readonly stopped: string | undefined;
  /** Whether its output stayed open after its end, for a child of it lived on. */
  readonly leftBehind: boolean;
  /** How long it took, in ms. */
  readonly timeMs: number;
}

/** The outcome of a process. */
export interface Outcome {
  readonly tally: Tally;
  /** The rows of the conformance lists among them. */
  readonly conformance: Tally;
  /** The names of skipped tests, with the reason. */
  readonly skipped: readonly string[];
  /** Each failure: its name, then why, and how it is run alone. */
  readonly failures: readonly string[];
  /** What was printed, without the tests that passed; empty if nothing failed. */
  readonly report: string;
}

/** What a process is: tests of deno, a command that counts, or one that passes or fails. */
export type Kind = "tests" | "counting" | "command";

/** Judges a process. An end that is not good, such as by a signal, is a failure beside those of its tests. */
export function judge(name: string, kind: Kind, end: ProcessEnd): Outcome {
  return kind === "tests"
    ? judgeTests(name, end)
    : judgeCommand(name, kind, end);
}

/** Judges what was skipped as a whole. */
export function judgeSkipped(name: string): Outcome {
  return {
    tally: { ...NOTHING, skipped: 1 },
    conformance: NOTHING,
    skipped: [name],
    failures: [],
    report: "",
  };
}

/** Judges what is one failure, however much is missing. */
export function judgeFailed(failure: string, report = ""): Outcome {
  return {
    tally: { ...NOTHING, failed: 1 },
    conformance: NOTHING,
    skipped: [],
    failures: [failure],
    report,
  };
}

function judgeCommand(name: string, kind: Kind, end: ProcessEnd): Outcome {
  const { code, signal, stopped } = end;
  const isGood = code === 0 && signal === null && stopped === undefined;
  const counted = kind === "command" ? NOTHING : findTally(end.output);
  if (isGood && counted !== undefined) {
    const tally = { ...counted, passed: counted.passed + 1 };
    return { ...judgeSkipped(name), tally, skipped: [] };
  }
  const why = stopped ?? signal ??
    (code === 0 ? "no count" : `exit code ${code}`);
  const first = listLines(end.output).slice(0, SOME_LINES);
  const failed = judgeFailed(
    [`${name} failed: ${why}`, ...first].join("\n    "),
    end.output.trim(),
  );
  // What failed is counted: that is why the command did.
  const isCounted = (counted?.failed ?? 0) > 0;
  const own = isCounted ? NOTHING : failed.tally;
  return { ...failed, tally: sumTallies([counted ?? NOTHING, own]) };
}

// deno-lint-ignore no-control-regex -- the terminal's own codes are meant
const COLORS = /\x1b\[[\d;]*m/g;

/** What a test printed, which may look like anything; its last line may lack a newline. */
const OF_TEST =
  /^-{7} (?:\w+-test )?output -{7}$(?:[^]*?-{5} (?:\w+-test )?output end -{5}$|[^]*)/gm;

const BEGIN = /^( *)(\S.*) \.\.\.$/;
const RESULT = /^( *)(.*) \.\.\. (ok|FAILED|ignored|cancelled)(?: \(.*\))?$/;
const ERRORS = " ERRORS ";
const PASSED = /^ *\S.* \.\.\. (?:ok|ignored) \(.*\)$/;

/** How many lines of output tell why or where a process ended. */
const SOME_LINES = 12;

function judgeTests(name: string, end: ProcessEnd): Outcome {
  const output = end.output.replaceAll(COLORS, "");
  const own = output.replaceAll(OF_TEST, "");
  const { results, running } = readResults(own);
  const summary = findSummary(own);
  const tally = summary ?? count(results);
  const last = results.at(-1)?.name;
  const place = running !== undefined
    ? `in the test "${running}"`
    : last === undefined
    ? "before its first test"
    : `after the test "${last}"`;
  const trouble = describeTrouble(
    end,
    summary === undefined ? place : undefined,
    tally.failed > 0,
  );
  const failed = summary === undefined
    ? results.filter(isFailed).map((result) => result.name)
    : listFailures(own);
  if (trouble !== undefined) {
    const lines = listLines(output).slice(-SOME_LINES);
    failed.push([`${name} ${trouble}`, ...lines].join("\n    "));
  }
  return {
    tally: {
      ...tally,
      failed: tally.failed + (trouble === undefined ? 0 : 1),
    },
    conformance: count(
      results.filter(({ name, isStep }) =>
        !isStep && name.startsWith("conformance ")
      ),
    ),
    skipped: results.filter(({ outcome }) => outcome === "ignored")
      .map((result) => result.name),
    failures: failed,
    report: failed.length === 0 ? "" : leaveOutPassed(output),
  };
}

/** Leaves out the tests that passed; what a diff shows may look like one. */
function leaveOutPassed(output: string): string {
  const [tests = "", ...reports] = output.split(`\n${ERRORS}\n`);
  const lines = tests.split("\n").filter((line) => !PASSED.test(line));
  return [lines.join("\n"), ...reports].join(`\n${ERRORS}\n`).trim();
}

/** A test or step that has ended. */
interface Result {
  /** Its name, after the names of the tests that it is a step of. */
  readonly name: string;
  readonly outcome: string;
  readonly isStep: boolean;
}

function isFailed({ outcome }: Result): boolean {
  return outcome === "FAILED" || outcome === "cancelled";
}

/** Reads which tests and steps have ended, and the last one that has not. */
function readResults(
  own: string,
): { results: Result[]; running: string | undefined } {
  const results: Result[] = [];
  const open: string[] = [];
  const [tests = ""] = own.split(`\n${ERRORS}\n`);
  for (const line of tests.split("\n")) {
    const [, indent = "", name, outcome] = RESULT.exec(line) ??
      BEGIN.exec(line) ?? [];
    if (name === undefined) continue;
    open.splice(indent.length / 2);
    open.push(name);
    if (outcome === undefined) continue;
    const isStep = open.length > 1;
    results.push({ name: open.join(" ... "), outcome, isStep });
    open.pop();
  }
  return { results, running: open.length > 0 ? open.join(" ... ") : undefined };
}

function count(results: readonly Result[]): Tally {
  const failed = results.filter(isFailed).length;
  const skipped = results.filter(({ outcome }) => outcome === "ignored").length;
  return { passed: results.length - failed - skipped, failed, skipped };
}

/**
 * Finds the summary of `deno test`, such as `ok | 2 passed (3 steps) | 0 failed`.
 * Steps count as tests, and tests that `--filter` left out do not count.
 *
 * @returns `undefined` where the tests did not come to their end
 */
function findSummary(own: string): Tally | undefined {
  const summary = [...own.matchAll(/^(?:ok|FAILED) \|.*$/gm)].at(-1)?.[0];
  if (summary === undefined) return undefined;
  const count = (word: string): number => {
    const [, tests = 0, steps = 0] =
      new RegExp(`(\\d+) ${word}(?: \\((\\d+) steps?\\))?`).exec(summary) ?? [];
    return Number(tests) + Number(steps);
  };
  return {
    passed: count("passed"),
    failed: count("failed"),
    skipped: count("ignored"),
  };
}

/** Lists the failures in deno's own report: where, the error, and how each is run alone. */
function listFailures(own: string): string[] {
  const [errors = "", list = ""] =
    own.split(`\n${ERRORS}\n`)[1]?.split("\n FAILURES \n") ?? [];
  const names = list.trim().split("\n\n")[0]?.split("\n") ?? [];
  const lines = errors.split("\n");
  return names.filter((name) => name !== "").map((name) => {
    const rest = lines.slice(lines.indexOf(name) + 1);
    const next = rest.findIndex((line) => names.includes(line));
    const about = next < 0 ? rest : rest.slice(0, next);
    const error = about.find((line) => line.startsWith("error: ")) ?? "";
    const alone = about.find((line) => line.startsWith("Alone: ")) ??
      tellAlone(name, own);
    return [name, error, alone].filter(Boolean).join("\n    ");
  });
}

/**
 * Says how the test of a failure such as `name ... step => ./a_test.ts:1:6` is run
 * alone. The place is where it was registered, which may be in the harness.
 */
function tellAlone(failure: string, own: string): string {
  const [, test, place] = /^(.*?)(?: \.\.\. .*)? => \.\/(.*?):\d+:\d+$/
    .exec(failure) ?? [];
  const before = own.split(`\n${test} ...`)[0] ?? "";
  const [, file = place] =
    [...before.matchAll(/^running \d+ tests? from \.\/(.*)$/gm)].at(-1) ?? [];
  return test === undefined
    ? ""
    : `Alone: deno task test ${file} --filter ${JSON.stringify(test)}`;
}

/** Describes a problem other than failed tests. */
function describeTrouble(
  { code, signal, stopped, leftBehind }: ProcessEnd,
  place: string | undefined,
  isExplained: boolean,
): string | undefined {
  const where = place ?? "after its tests";
  if (stopped !== undefined) return `was ended ${where}: ${stopped}`;
  if (signal !== null) return `died of ${signal} ${where}`;
  if (place !== undefined) return `ended ${place}, with exit code ${code}`;
  if (leftBehind) return "left a process behind that kept its output open";
  if (code === 0 || isExplained) return undefined;
  return `ended with exit code ${code}, but no test failed`;
}

function listLines(output: string): string[] {
  return output.split("\n").filter((line) => line.trim() !== "");
}
