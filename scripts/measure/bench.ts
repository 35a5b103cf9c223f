// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Measures the plugins beside others: `deno task bench`.
 *
 *     deno task bench [--quick] [--growth] [--rounds N] [--filter TEXT]
 *                     [--bin DIR] [--peer DIR]... [--go-multus DIR]
 *                     [--out DIR] [--docs] [--json]
 *
 * Whole processes, as a container runtime starts them, in turns: A B A B. All
 * of it happens in namespaces that end with this program, so that the machine's
 * own network and files are not touched. docs/performance.md tells how to read
 * what it prints, and writes to dist/bench.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { describeError } from "../../base/error.ts";
import { ensureCompiled } from "../compile.ts";
import { ROOT } from "../compile/project.ts";
import { answerHelp, readOptions } from "../help.ts";
import { importFlags } from "../net.ts";
import { chooseOverview, drawBars } from "./bench/charts.ts";
import { writeFigures } from "./bench/figures.ts";
import { type Answer, measureAll, type Task } from "./bench/measure.ts";
import { drawGrowth, formatGrowth } from "./bench/growth.ts";
import { runIsolated } from "./bench/isolation.ts";
import {
  describeLines,
  describeMachine,
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

/** The options of the command line. */
interface BenchOptions {
  /** Directory of our executables; undefined if they are to be built. */
  readonly bin: string | undefined;
  /** Directories of other executables to compare with. */
  readonly peers: readonly string[];
  /** Directory of the Go version's multus. */
  readonly goMultus: string | undefined;
  /** Whether stdout is the JSON document instead of tables. */
  readonly json: boolean;
  readonly quick: boolean;
  readonly growth: boolean;
  /** Whether the documentation gets the figures. */
  readonly docs: boolean;
  readonly rounds: number | undefined;
  readonly filter: string;
  /** Results of which the documentation's figures are made; undefined to measure. */
  readonly figures: string | undefined;
  /** Where the results are written. */
  readonly out: string;
}

/** @throws {Error} If there is something in it that we do not know */
function parseOptions(): BenchOptions {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { bin, peer = [], rounds, filter = "", out, figures, ...more } =
    readOptions({
      ...{ bin: text, "go-multus": text, rounds: text, filter: text },
      ...{ out: text, figures: text, peer: { ...text, multiple: true } },
      ...{ json: flag, quick: flag, growth: flag, docs: flag },
    });
  if (rounds !== undefined && !/^[1-9]\d{0,2}$|^1000$/.test(rounds)) {
    throw new Error(`Cannot use "${rounds}" as --rounds: expected 1 to 1000`);
  }
  const path = (text: string | undefined): string | undefined =>
    text === undefined ? undefined : resolve(text);
  const { json = false, quick = false, growth = false, docs = false } = more;
  return {
    bin: path(bin),
    peers: peer.map((directory) => resolve(directory)),
    goMultus: path(more["go-multus"]),
    rounds: rounds === undefined ? undefined : Number(rounds),
    figures: path(figures),
    out: resolve(out ?? `${ROOT}dist/bench`),
    ...{ json, quick, growth, docs, filter },
  };
}

/** Measures, prints and writes; returns the exit status. */
async function bench(options: BenchOptions): Promise<number> {
  const { quick, growth, rounds, filter, json, out, figures } = options;
  if (figures !== undefined) {
    await writeFigures(figures);
    return 0;
  }
  const bin = options.bin ?? await ensureCompiled();
  const go = Deno.env.get("CNI_GO_PLUGINS") || GO_DIRECTORY;
  const { peers, goMultus } = options;
  const { subjects, notes } = findSubjects(bin, {
    ...{ peers, goMultus },
    goDirectory: go,
  });
  const machine = describeMachine(subjects);
  notes.forEach((note) => console.error(note));
  const answer = await measure({ subjects, quick, growth, rounds, filter });
  if (typeof answer === "number") return answer;
  const { rows } = answer;
  if (rows.length === 0) {
    console.error(`Nothing was measured that has "${filter}" in its name`);
    return 1;
  }
  const all = [...notes, ...answer.notes];
  const report: Report = { machine, quick, growth, filter, notes: all, rows };
  const files = await writeReport(report, out);
  if (growth && !json) console.log(formatGrowth(rows));
  console.log(json ? JSON.stringify(report, null, 2) : formatReport(report));
  files.forEach((file) => console.error(`Written: ${file}`));
  const [document = ""] = files;
  if (options.docs) await writeFigures(document);
  return 0;
}

/**
 * Writes the results as `bench.*` or `growth.*`: the document, tables and a chart,
 * and a smaller chart of pods alone.
 *
 * @param directory Made if it is not there
 * @returns The files, first the document
 */
async function writeReport(
  report: Report,
  directory: string,
): Promise<string[]> {
  const { machine, growth, rows } = report;
  const name = growth ? "growth" : "bench";
  const lines = describeLines(machine);
  const overview = growth ? [] : chooseOverview(rows);
  const contents = {
    "json": JSON.stringify(report, null, 2) + "\n",
    "md": (growth ? `${formatGrowth(rows)}\n` : "") + formatReport(report),
    "svg": growth ? drawGrowth(rows, lines) : drawBars(rows, lines),
    ...overview.length > 0 && { "overview.svg": drawBars(overview, lines) },
  };
  await Deno.mkdir(directory, { recursive: true });
  const files: string[] = [];
  for (const [extension, text] of Object.entries(contents)) {
    const file = `${directory}/${name}.${extension}`;
    await Deno.writeTextFile(file, text);
    files.push(file);
  }
  return files;
}

const HELP = `Measure the plugins beside others, in namespaces of their own.

Usage: deno task bench [--quick] [--growth] [--rounds N] [--filter TEXT]
                       [--bin DIR] [--peer DIR]... [--go-multus DIR]
                       [--out DIR] [--docs] [--json]
       deno task bench --figures FILE

  --quick          a few rounds of the smaller measurements
  --growth         pods alone, with 0 to 2000 containers on the node
  --rounds N       rounds that count (1 to 1000)
  --filter TEXT    measure only cells with TEXT in their name
  --bin DIR        our executables (default build them)
  --peer DIR       other executables to compare with; can be repeated
  --go-multus DIR  directory of the Go multus
  --out DIR        where to write the results (default dist/bench)
  --docs           write the documentation's figures, too
  --figures FILE   only write them, of an earlier bench.json or growth.json
  --json           print a JSON document instead of tables`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    const [first, task = ""] = Deno.args;
    if (first === NESTED) {
      console.log(JSON.stringify(measureAll(JSON.parse(task) as Task)));
    } else {
      Deno.exitCode = await bench(parseOptions());
    }
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
