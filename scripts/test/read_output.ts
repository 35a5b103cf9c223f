/**
 * Reads what `deno test` prints while it runs. Its JUnit report would be easier
 * to read, but has no word on a module that fails to load, and is not written
 * at all by a process that dies.
 *
 * @module
 */

import { stripColors, sumTallies, type Tally } from "../tally.ts";

/** A test or step that has ended. */
export interface TestResult {
  /** Its name, after the names of the tests that it is a step of. */
  readonly name: string;
  readonly outcome: string;
}

/** Something that failed, briefly. */
export interface Failure {
  readonly name: string;
  /** The first lines of why. */
  readonly lines: readonly string[];
}

/** The parsed output of `deno test`. */
export interface ShardOutput {
  readonly results: readonly TestResult[];
  /** The last test or step that began and has not ended. */
  readonly running: string | undefined;
  /** The output of deno itself, without the output of the tests. */
  readonly own: string;
  /** What was printed of the tests that failed, without steps that passed. */
  readonly failedTests: string;
}

const BEGIN = /^( *)(\S.*) \.\.\.$/;
const RESULT = /^( *)(.*) \.\.\. (ok|FAILED|ignored|cancelled)(?: \(.*\))?$/;
const PASSED_STEP = /^ +.* \.\.\. ok \(.*\)$/;
const OUTPUT_BEGIN = /^-{7} (?:\w+-test )?output -{7}$/;
/** The last output of a test may lack a newline. */
const OUTPUT_END = /-{5} (?:\w+-test )?output end -{5}$/;
const ERRORS = " ERRORS ";
const FAILURES = " FAILURES ";

/** How many lines of an error make it known. */
const BRIEF_LINES = 12;

/** Parses lines; each may begin or end a test or step. */
class Reader {
  readonly results: TestResult[] = [];
  /** The names of the tests and steps that have not ended, outermost first. */
  readonly open: string[] = [];
  readonly failedTests: string[] = [];
  #block: string[] = [];

  read(line: string): void {
    this.#block.push(line);
    const [, indent = "", name, outcome] = RESULT.exec(line) ?? [];
    if (name !== undefined && outcome !== undefined) {
      this.#end(indent, name, outcome);
      return;
    }
    const [, outer = "", begun] = BEGIN.exec(line) ?? [];
    if (begun === undefined) return;
    this.open.splice(outer.length / 2);
    this.open.push(begun);
  }

  /** Keeps the output of a test, which may look like anything. */
  keep(line: string): void {
    this.#block.push(line);
  }

  #end(indent: string, name: string, outcome: string): void {
    this.open.splice(indent.length / 2);
    this.results.push({ name: [...this.open, name].join(" ... "), outcome });
    if (indent !== "") return;
    const isFailed = outcome === "FAILED" || outcome === "cancelled";
    if (isFailed) {
      this.failedTests.push(
        ...this.#block.filter((line) => !PASSED_STEP.test(line)),
      );
    }
    this.#block = [];
  }
}

/** Reads the output of `deno test`, which may end anywhere. */
export function readOutput(output: string): ShardOutput {
  const reader = new Reader();
  const own: string[] = [];
  let isOfTest = false;
  let areTestsOver = false;
  for (const line of stripColors(output).split("\n")) {
    if (OUTPUT_BEGIN.test(line)) isOfTest = true;
    if (!isOfTest) own.push(line);
    areTestsOver ||= !isOfTest && line === ERRORS;
    if (isOfTest) reader.keep(line);
    else if (!areTestsOver) reader.read(line);
    if (OUTPUT_END.test(line)) isOfTest = false;
  }
  return {
    results: reader.results,
    running: reader.open.length === 0 ? undefined : reader.open.join(" ... "),
    own: own.join("\n"),
    failedTests: reader.failedTests.join("\n"),
  };
}

/** Counts results, for want of a summary. */
export function tallyResults(results: readonly TestResult[]): Tally {
  return sumTallies(results.map(({ outcome }) => ({
    passed: Number(outcome === "ok"),
    failed: Number(outcome === "FAILED" || outcome === "cancelled"),
    skipped: Number(outcome === "ignored"),
  })));
}

/** Returns the report on failures in deno's own output, with the summary; or "". */
export function findReport(own: string): string {
  const start = own.lastIndexOf(`\n${ERRORS}\n`);
  if (start < 0) return "";
  return own.slice(start + 1).replace(/\nerror: Test failed\n[^]*$/, "")
    .trimEnd();
}

/** Lists the failures in a report. */
export function findFailures(report: string): Failure[] {
  const [errors = "", list = ""] = report.split(`\n${FAILURES}\n`);
  const names = list.trim().split("\n\n")[0]?.split("\n") ?? [];
  return names.filter((name) => name !== "").map((name) => {
    const lines = errors.split("\n");
    const rest = lines.slice(lines.indexOf(name) + 1);
    const next = rest.findIndex((line) => names.includes(line));
    return { name, lines: shorten(next < 0 ? rest : rest.slice(0, next)) };
  });
}

/** Keeps what begins a diff, and its first change. */
function shorten(lines: readonly string[]): string[] {
  const shown = lines
    .filter((line) => line.trim() !== "" && !/^\s+at /.test(line));
  const head = shown.findIndex((line) => line.includes("[Diff]")) + 1;
  const change = shown.findIndex((line, at) => at > head && /^[-+]/.test(line));
  const from = head > 0 && change > 0 ? change - 1 : head;
  const brief = [...shown.slice(0, head), ...shown.slice(from)]
    .slice(0, BRIEF_LINES);
  const alone = shown.filter((line) => line.startsWith("Alone: "));
  return [...brief, ...alone.filter((line) => !brief.includes(line))];
}
