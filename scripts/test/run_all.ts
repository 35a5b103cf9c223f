/**
 * Runs all tests, several files at a time, and shows the outcome of each.
 *
 * @module
 */

import { sumTallies, type Tally } from "../tally.ts";
import {
  judgeCommand,
  judgeShard,
  judgeUnrun,
  type Outcome,
} from "./outcome.ts";
import { mayDownload, type Plan } from "./plan.ts";
import type { Failure } from "./read_output.ts";
import { runShard, type ShardEnd } from "./run_shard.ts";

/** How to run all tests. */
export interface RunOptions {
  /** The folder that the files are named from. */
  readonly root: URL;
  /** Flags for any deno command. */
  readonly flags: readonly string[];
  /** A command that enters namespaces, in front of each test; none by default. */
  readonly enter?: readonly string[];
  /** Variables for the tests, beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** How many files are run at the same time. */
  readonly jobs: number;
  /** Whether types are checked, too. */
  readonly checkTypes: boolean;
  /** More arguments for each `deno test`. */
  readonly testArgs: readonly string[];
  /** Whether what passes is shown as well. */
  readonly verbose: boolean;
  /** Ends the run; its reason is printed. */
  readonly stop: AbortSignal;
  /** Shows something. */
  readonly print: (text: string) => void;
  /** Shows how far the run is, and what is running. */
  readonly onProgress?: (text: string) => void;
  /** Keeps everything that deno printed. */
  readonly log: (text: string) => void;
}

/** The outcome of all tests. */
export interface RunResult {
  readonly tally: Tally;
  readonly conformance: Tally;
  readonly failures: readonly Failure[];
}

/** How many files run at the same time that load cores by themselves. */
const STRESS_JOBS = 2;

/** Something to run. */
interface Job {
  readonly name: string;
  readonly args: readonly string[];
  readonly enter?: readonly string[] | undefined;
  readonly judge: (name: string, end: ShardEnd) => Outcome;
}

/**
 * Runs the tests. Their types are checked beside them, once for all, unless
 * the options say no.
 *
 * The files that failed are shown in full at once, others by a line. A file that
 * failed because the machine ran out of something is run once more, alone, and
 * counts as it ends then.
 */
export async function runAll(
  plan: Plan,
  options: RunOptions,
): Promise<RunResult> {
  const check = ["check", "-q", ...options.flags, "."];
  const types = { name: "types", args: check, judge: judgeCommand };
  const test = (path: string): Job => ({
    name: path,
    args: [
      "test",
      "-A",
      "--no-check",
      ...options.flags,
      ...options.testArgs,
      path,
    ],
    enter: mayDownload(path) ? [] : options.enter,
    judge: judgeShard,
  });
  const together = [
    ...options.checkTypes ? [types] : [],
    ...plan.together.map(test),
  ];
  const stress = plan.stress.map(test);
  const alone = plan.alone.map(test);
  const { jobs } = options;
  const first = [
    ...await runJobs(together, jobs, options),
    ...await runJobs(stress, Math.min(jobs, STRESS_JOBS), options),
    ...await runJobs(alone, 1, options),
  ];
  const again = first.filter(({ outcome }) => outcome.limit !== undefined)
    .map(({ job }) => job);
  const queue = [...again];
  const last = await runJobs(queue, 1, options);
  const ran = [
    ...first.filter(({ job }) => !again.includes(job) || queue.includes(job)),
    ...last,
  ].map(({ outcome }) => outcome);
  const unrun = [...together, ...stress, ...alone].map(({ name }) => name);
  const outcomes = unrun.length === 0
    ? ran
    : [judgeUnrun(unrun, String(options.stop.reason)), ...ran];
  return {
    tally: sumTallies(outcomes.map(({ tally }) => tally)),
    conformance: sumTallies(outcomes.map(({ conformance }) => conformance)),
    failures: outcomes.flatMap(({ failures }) => failures),
  };
}

/** A job that has run. */
interface Ran {
  readonly job: Job;
  readonly outcome: Outcome;
}

/** Runs jobs from the queue; remaining jobs must not run. */
async function runJobs(
  queue: Job[],
  atOnce: number,
  options: RunOptions,
): Promise<Ran[]> {
  const outcomes: Ran[] = [];
  const running = new Set<string>();
  const total = queue.length;
  const tell = (): void => {
    const failed =
      outcomes.filter(({ outcome }) => outcome.tally.failed > 0).length;
    const failures = failed > 0 ? `, ${failed} failed` : "";
    const names = [...running].join(" ");
    options.onProgress?.(`${outcomes.length}/${total}${failures}: ${names}`);
  };
  async function work(): Promise<void> {
    while (!options.stop.aborted) {
      const job = queue.shift();
      if (job === undefined) return;
      running.add(job.name);
      tell();
      outcomes.push({ job, outcome: await runJob(job, options) });
      running.delete(job.name);
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work));
  return outcomes;
}

async function runJob(
  { name, args, enter = [], judge }: Job,
  { root, env, verbose, stop, print, log }: RunOptions,
): Promise<Outcome> {
  const end = await runShard(args, { cwd: root, enter, env, stop });
  log(`==> ${name}\n${end.output}\n`);
  const outcome = judge(name, end);
  const shown = verbose ? end.output : outcome.report;
  print(formatOutcome(name, end.timeMs, { ...outcome, report: shown }));
  return outcome;
}

/** Renders a line on a file, the names of what it skipped, and the report. */
export function formatOutcome(
  name: string,
  timeMs: number,
  { tally, skipped, limit, report }: Outcome,
): string {
  const { passed, failed } = tally;
  const counts = [
    passed > 0 && `${passed} passed`,
    failed > 0 && `${failed} failed`,
    tally.skipped > 0 && `${tally.skipped} skipped`,
  ].filter(Boolean).join(", ");
  const time = `(${(timeMs / 1000).toFixed(1)} s)`;
  const verdict = failed > 0 ? "FAILED" : "ok    ";
  const line = [verdict, name, counts, time].filter(Boolean).join(" ");
  const notes = [
    ...limit === undefined ? [] : [`the machine ran out of ${limit}`],
    ...skipped,
  ];
  const lines = [line, ...notes.map((one) => `         ${one}`)];
  return [...lines, ...report === "" ? [] : ["", report, ""]].join("\n");
}
