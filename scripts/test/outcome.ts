/**
 * Reads the outcome of a process from how it ended and what it printed: that of tests
 * from deno's report in JUnit's XML (`--junit-path=-`), which follows their output.
 *
 * @module
 */

/** Counts of tests and their steps, and of checks. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
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
  /** How long it took, in seconds. */
  readonly seconds: number;
  /** The processor time of it and its descendants, in seconds. */
  readonly cpuSeconds: number;
}

/** The outcome of a process. */
export interface Outcome {
  readonly tally: Tally;
  /** The names of skipped tests, with the reason. */
  readonly skipped: readonly string[];
  /** Each failure: its name, then why, and how it is run alone. */
  readonly failures: readonly string[];
}

const NOTHING: Outcome = {
  tally: sumTallies([]),
  skipped: [],
  failures: [],
};

/** What a process is: tests of deno, a command that counts, or one that passes or fails. */
export type Kind = "tests" | "counting" | "command";

/** Reads the outcome of a process. A bad end is a failure, in addition to its failed tests. */
export function readOutcome(
  name: string,
  kind: Kind,
  end: ProcessEnd,
): Outcome {
  const outcome = kind === "tests"
    ? readReport(end.output)
    : kind === "counting"
    ? readCount(name, end.output)
    : NOTHING;
  const trouble = describeTrouble(end, (outcome?.tally.failed ?? 0) > 0) ??
    (outcome === undefined ? "ended without a count" : undefined);
  const { tally, failures, ...rest } = outcome ?? NOTHING;
  const own = trouble !== undefined ? 1 : 0;
  const passed = tally.passed + (kind === "tests" ? 0 : 1 - own);
  return {
    ...rest,
    tally: { ...tally, passed, failed: tally.failed + own },
    failures: trouble === undefined
      ? failures
      : [...failures, formatFailure(name, trouble, end.output)],
  };
}

/** Returns the outcome of what cannot be run. */
export function outcomeOf(what: "failed" | "skipped", text: string): Outcome {
  const tally = { ...NOTHING.tally, [what]: 1 };
  return what === "failed"
    ? { ...NOTHING, tally, failures: [text] }
    : { ...NOTHING, tally, skipped: [text] };
}

function readCount(name: string, output: string): Outcome | undefined {
  const tally = findTally(output);
  if (tally === undefined) return undefined;
  const failures = tally.failed > 0
    ? [formatFailure(name, "has failures", output)]
    : [];
  return { ...NOTHING, tally, failures };
}

/** Lines of the output that show why or where a process ended. */
const SOME_LINES = 12;
/** Where `deno test` begins to print errors. */
const ERRORS = /^\s*ERRORS\s*$/m;

/** Quotes the first errors of failed tests, or else the end of the output. */
function formatFailure(name: string, trouble: string, output: string): string {
  const [, errors] = output.split(ERRORS);
  const lines = (errors ?? output).split("\n")
    .filter((line) => line.trim() !== "");
  const quoted = errors === undefined
    ? lines.slice(-SOME_LINES)
    : lines.slice(0, SOME_LINES);
  return [`${name} ${trouble}`, ...quoted].join("\n    ");
}

function describeTrouble(
  { code, signal, stopped, leftBehind }: ProcessEnd,
  isExplained: boolean,
): string | undefined {
  if (stopped !== undefined) return `was ended: ${stopped}`;
  if (signal !== null) return `died of ${signal}`;
  if (leftBehind) return "left a process behind that kept its output open";
  if (code === 0 || isExplained) return undefined;
  return `ended with exit code ${code}`;
}

const REPORT =
  /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<testsuites name="deno test"[^]*?<\/testsuites>\n/gm;

/** Returns what a process printed itself, without deno's report. */
export function withoutReport(output: string): string {
  return output.replaceAll(REPORT, "");
}

/** A test or step. */
interface Case {
  /** Its name, after the names of the tests that it is a step of. */
  readonly name: string;
  readonly file: string;
  readonly outcome: keyof Tally;
  /** What failed; of a test with a failed step, that it has one. */
  readonly failure: string;
}

const CASE =
  /<testcase name="(.*?)" classname="(?:\.\/)?(.*?)" time=[^>]*>\s*(<skipped\/>|<failure message="[^"]*">([^<]*)<\/failure>)?\s*<\/testcase>/g;

/** Reads the report. Tests that `--filter` left out have no time. */
function readCases(report: string): Case[] {
  return [...report.matchAll(CASE)].map((
    [, name = "", file = "", result = "", failure = ""],
  ) => ({
    name: unescape(name),
    file,
    outcome: result === ""
      ? "passed"
      : result.startsWith("<s")
      ? "skipped"
      : "failed",
    failure: unescape(failure),
  }));
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
};

function unescape(text: string): string {
  return text.replaceAll(
    /&(\w+);/g,
    (whole, name: string) => ENTITIES[name] ?? whole,
  );
}

/** @returns Undefined if the tests did not come to their end */
function readReport(output: string): Outcome | undefined {
  const report = output.match(REPORT)?.at(-1);
  if (report === undefined) return undefined;
  const cases = readCases(report);
  const files = new Map(cases.map(({ name, file }) => [name, file]));
  return {
    tally: count(cases),
    skipped: cases.filter(({ outcome }) => outcome === "skipped")
      .map(({ name }) => name),
    failures: cases.filter(({ outcome, failure }) =>
      outcome === "failed" && !/^\d+ test steps? failed/.test(failure)
    ).map((failed) => describeFailure(failed, files)),
  };
}

function count(cases: readonly Case[]): Tally {
  const of = (wanted: keyof Tally): number =>
    cases.filter(({ outcome }) => outcome === wanted).length;
  return { passed: of("passed"), failed: of("failed"), skipped: of("skipped") };
}

/**
 * An error may say itself how it is seen alone.
 *
 * @param files The file in the report of each test
 */
function describeFailure(
  { name, file, failure }: Case,
  files: ReadonlyMap<string, string>,
): string {
  const [test = name] = name.split(" > ");
  const args = [
    ...findTestFile([files.get(test) ?? "", file], failure),
    `--filter ${JSON.stringify(test)}`,
  ];
  const alone = /^Alone: .*$/m.exec(failure)?.[0] ??
    `Alone: deno task test ${args.join(" ")}`;
  const [error = ""] = failure.split("\n");
  return [name, error, alone].join("\n    ");
}

/**
 * Finds the file of a test, in the stack of its error if need be: in the report, the
 * file of a test or step is where it is registered, such as in
 * `tests/_harness/table.ts`.
 *
 * @returns Nothing if it is unknown
 */
function findTestFile(reported: readonly string[], failure: string): string[] {
  const root = new URL("../..", import.meta.url).href;
  const frames = [...failure.matchAll(/\bfile:[^\s:]+/g)]
    .map(([url]) => url.startsWith(root) ? url.slice(root.length) : url);
  return [...reported, ...frames]
    .filter((file) => file.endsWith("_test.ts"))
    .slice(0, 1);
}
