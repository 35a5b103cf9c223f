/**
 * Measures the plugins beside others: `deno task bench`.
 *
 *     deno task bench [--quick] [--rounds N] [--filter TEXT] [--bin DIR]
 *                     [--peer DIR]... [--go-multus DIR] [--out DIR]
 *     deno task bench --growth [--sizes N,N...] [--docs]
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
import { ROOT } from "../project.ts";
import { answerHelp, readOptions } from "../command_line.ts";
import { importFlags } from "../import_flags.ts";
import { type Answer, measureAll, type Task } from "./bench/measure.ts";
import { GROWTH } from "./bench/cells.ts";
import { formatGrowth, writeGrowth } from "./bench/growth.ts";
import { runIsolated } from "./bench/isolation.ts";
import { describeMachine, formatReport, type Report } from "./bench/report.ts";
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
  readonly quick: boolean;
  /** Numbers of containers on the node, to measure growth alone. */
  readonly growth: readonly number[] | undefined;
  /** Whether the growth is written into the pages. */
  readonly docs: boolean;
  readonly rounds: number | undefined;
  readonly filter: string;
  /** Where the results are written. */
  readonly out: string;
}

/** @throws {Error} If there is something in it that we do not know */
function parseOptions(): BenchOptions {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { bin, peer = [], rounds, filter = "", out, ...more } = readOptions({
    ...{ bin: text, "go-multus": text, rounds: text, filter: text, out: text },
    ...{ peer: { ...text, multiple: true }, quick: flag },
    ...{ growth: flag, sizes: text, docs: flag },
  });
  if (rounds !== undefined && !/^[1-9]\d{0,2}$|^1000$/.test(rounds)) {
    throw new Error(`Cannot use "${rounds}" as --rounds: expected 1 to 1000`);
  }
  const path = (text: string | undefined): string | undefined =>
    text === undefined ? undefined : resolve(text);
  const { quick = false, sizes, docs = false } = more;
  if (more.growth !== true && (sizes !== undefined || docs)) {
    throw new Error("Cannot use --sizes or --docs without --growth");
  }
  return {
    bin: path(bin),
    peers: peer.map((directory) => resolve(directory)),
    goMultus: path(more["go-multus"]),
    rounds: rounds === undefined ? undefined : Number(rounds),
    out: resolve(out ?? `${ROOT}dist/bench`),
    growth: more.growth === true ? parseSizes(sizes) : undefined,
    ...{ quick, docs, filter },
  };
}

/** @throws {Error} If it is no list of numbers */
function parseSizes(text: string | undefined): readonly number[] {
  if (text === undefined) return GROWTH;
  if (!/^\d{1,4}(,\d{1,4})*$/.test(text)) {
    throw new Error(`Cannot use "${text}" as --sizes: expected 0,100 or so`);
  }
  return text.split(",").map(Number).sort((a, b) => a - b);
}

/** Measures, prints and writes; returns the exit status. */
async function bench(options: BenchOptions): Promise<number> {
  const { quick, growth, rounds, filter, out } = options;
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
  const report: Report = { machine, filter, notes: all, rows };
  const text = growth === undefined
    ? formatReport(report)
    : `${formatReport(report)}\n${formatGrowth(rows)}\n`;
  console.log(text);
  const path = `${out}/${growth === undefined ? "bench" : "growth"}`;
  await Deno.mkdir(out, { recursive: true });
  await Deno.writeTextFile(`${path}.md`, text);
  await Deno.writeTextFile(
    `${path}.json`,
    `${JSON.stringify(report, null, 2)}\n`,
  );
  const pages = options.docs ? await writeGrowth(ROOT, report) : [];
  console.error(
    `Written: ${[`${path}.md`, `${path}.json`, ...pages].join(", ")}`,
  );
  return 0;
}

const HELP = `Measure the plugins beside others, in namespaces of their own.

Usage: deno task bench [--quick] [--rounds N] [--filter TEXT] [--bin DIR]
                       [--peer DIR]... [--go-multus DIR] [--out DIR]
       deno task bench --growth [--sizes N,N...] [--docs] [OPTION]...

  --quick          a few rounds of the smaller measurements
  --growth         measure a pod beside more and more containers
  --sizes N,N...   numbers of containers (default ${GROWTH.join(",")})
  --docs           write the growth to README.md, docs/performance.md and
                   docs/growth.svg
  --rounds N       rounds that count (1 to 1000)
  --filter TEXT    measure only cells with TEXT in their name
  --bin DIR        our executables (default build them)
  --peer DIR       other executables to compare with; can be repeated
  --go-multus DIR  directory of the Go multus
  --out DIR        where to write the results (default dist/bench)`;

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
