// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Measures the plugins beside others: `deno task bench`.
 *
 *     deno task bench [--quick] [--rounds N] [--filter TEXT]
 *                     [--bin DIR] [--peer DIR]... [--go-multus DIR]
 *                     [--out DIR] [--json]
 *
 * Whole processes, as a container runtime starts them, in turns: A B A B. All
 * of it happens in namespaces that end with this program, so that the machine's
 * own network and files are not touched. docs/performance.md tells how to read
 * what it prints, and writes to dist/bench.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { ensureCompiled } from "../compile.ts";
import { ROOT } from "../compile/project.ts";
import { answerHelp } from "../help.ts";
import { importFlags } from "../net.ts";
import { chooseOverview, drawBars } from "./bench/charts.ts";
import { writeFigures } from "./bench/figures.ts";
import { type Answer, measureAll, type Task } from "./bench/inside.ts";
import { runIsolated } from "./bench/isolation.ts";
import { type BenchOptions, parseOptions } from "./bench/plan.ts";
import {
  describeLines,
  describeMachine,
  formatMarkdown,
  formatReport,
  type Report,
} from "./bench/report.ts";
import { findSubjects, GO_DIRECTORY } from "./bench/subject.ts";

/** Marks a run that this script started, with a task. */
const NESTED = "--in-namespaces";

/** Measures in a separate process, which takes everything with it at its end. */
async function measure(
  task: Omit<Task, "deno" | "directory">,
): Promise<Answer | number> {
  const directory = await Deno.makeTempDir({ prefix: "cni-bench-" });
  try {
    const script = new URL(import.meta.url).pathname;
    const deno = [Deno.execPath(), "run", "-A", ...await importFlags()];
    const nested = JSON.stringify({ ...task, deno, directory });
    const command = [...deno, script, NESTED, nested];
    const { code, stdout } = await runIsolated(command, ROOT);
    return code === 0 ? JSON.parse(stdout) as Answer : code;
  } finally {
    await Deno.remove(directory);
  }
}

/** Measures, prints and writes; returns the exit status. */
async function bench(options: BenchOptions): Promise<number> {
  const { quick, rounds, filter, json, out, figures } = options;
  if (figures !== undefined) {
    await writeFigures(figures);
    return 0;
  }
  const bin = options.bin ?? await ensureCompiled();
  const go = Deno.env.get("CNI_GO_PLUGINS") || GO_DIRECTORY;
  const { subjects, notes } = findSubjects(
    bin,
    options.peers,
    go,
    options.goMultus,
  );
  const machine = describeMachine(subjects);
  notes.forEach((note) => console.error(note));
  const answer = await measure({ subjects, quick, rounds, filter });
  if (typeof answer === "number") return answer;
  const report: Report = {
    machine,
    quick,
    filter,
    notes: [...notes, ...answer.notes],
    rows: answer.rows,
  };
  const files = await writeReport(report, out);
  console.log(json ? JSON.stringify(report, null, 2) : formatReport(report));
  files.forEach((file) => console.error(`Written: ${file}`));
  if (report.rows.length > 0) return 0;
  console.error(`Nothing was measured that has "${filter}" in its name`);
  return 1;
}

const HELP = `Measure the plugins beside others, in namespaces of their own.

Usage: deno task bench [--quick] [--rounds N] [--filter TEXT]
                       [--bin DIR] [--peer DIR]... [--go-multus DIR]
                       [--out DIR] [--json]
       deno task bench --figures FILE

  --quick          a few rounds of the smaller measurements
  --rounds N       rounds that count (1 to 1000)
  --filter TEXT    measure only cells with TEXT in their name
  --bin DIR        our executables (default build them)
  --peer DIR       other executables to compare with; can be repeated
  --go-multus DIR  directory of the Go multus
  --out DIR        where to write the results (default dist/bench)
  --figures FILE   write the documentation's figures of a bench.md
  --json           print a JSON document instead of tables`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    const [first, second = ""] = Deno.args;
    if (first === NESTED) {
      console.log(JSON.stringify(measureAll(JSON.parse(second) as Task)));
    } else {
      Deno.exitCode = await bench(parseOptions(Deno.args));
    }
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}

/**
 * Writes the results as `bench.*`: the document, tables and a chart, and a smaller
 * chart of pods alone. Writes nothing without rows.
 *
 * @param directory Made if it is not there
 * @returns The files
 */
async function writeReport(
  report: Report,
  directory: string,
): Promise<string[]> {
  const { rows, machine } = report;
  if (rows.length === 0) return [];
  const lines = describeLines(machine);
  const overview = chooseOverview(rows);
  const contents = {
    "json": JSON.stringify(report, null, 2) + "\n",
    "md": formatMarkdown(report),
    "svg": drawBars(rows, lines),
    ...overview.length > 0 ? { "overview.svg": drawBars(overview, lines) } : {},
  };
  await Deno.mkdir(directory, { recursive: true });
  const files: string[] = [];
  for (const [extension, text] of Object.entries(contents)) {
    const file = `${directory}/bench.${extension}`;
    await Deno.writeTextFile(file, text);
    files.push(file);
  }
  return files;
}
