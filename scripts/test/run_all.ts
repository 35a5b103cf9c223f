/**
 * Runs all tests, several files at a time, and shows the outcome of each.
 *
 * @module
 */

import { sumTallies, type Tally } from "../tally.ts";
import { type Durations, Forecast, formatSeconds } from "./durations.ts";
import { IdleMeter } from "./idle.ts";
import type { Job, TestPlace } from "./jobs.ts";
import { judgeSkipped, judgeUnrun, type Outcome } from "./outcome.ts";
import type { Failure, TestResult } from "./read_output.ts";
import { runShard } from "./run_shard.ts";

/** How to run all tests. */
export interface RunOptions {
  /** The directory that the files are named from. */
  readonly root: URL;
  /** Variables for all jobs, beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** What jobs wait for that need executables or a node; nothing by default. */
  readonly place?: Promise<TestPlace>;
  /** How many jobs run at the same time, however busy the processors are. */
  readonly jobs: number;
  /** How many more begin while a processor is idle; none by default. */
  readonly more?: number;
  /** Returns how many processors were idle since the last call; measured by default. */
  readonly measureIdle?: () => number;
  /** The known durations of jobs. */
  readonly durations: Durations;
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
  /** How each conformance row ended. */
  readonly rows: readonly TestResult[];
  readonly failures: readonly Failure[];
  /** How long each job took, in seconds. */
  readonly seconds: Readonly<Record<string, number>>;
}

/** How many jobs run at the same time that load cores by themselves. */
const STRESS_JOBS = 2;

/** How long processors are watched before another job may begin, in ms. */
const WATCH_MS = 250;

/** How idle one must be then. */
const IDLE_ENOUGH = 0.25;

/**
 * Runs jobs beside each other, in this order. Many tests wait for most of their
 * time, for the kernel or a clock; so more jobs begin as long as processors have
 * nothing to do.
 *
 * The jobs that failed are shown in full at once, others by a line. One that
 * failed because the machine ran out of something is run once more, alone, and
 * counts as it ends then.
 */
export async function runAll(
  jobs: readonly Job[],
  options: RunOptions,
): Promise<RunResult> {
  const names = jobs.map(({ name }) => name);
  const run = new Run(options, names);
  const first = await run.together(jobs);
  const again = first.filter(({ outcome }) => outcome.limit !== undefined)
    .map(({ job }) => job);
  const last = await run.oneByOne(again);
  const isReplaced = (job: Job): boolean => last.some((ran) => ran.job === job);
  const ran = [...first.filter(({ job }) => !isReplaced(job)), ...last];
  const begun = new Set(ran.map(({ job }) => job.name));
  const unrun = names.filter((name) => !begun.has(name));
  const outcomes = ran.map(({ outcome }) => outcome);
  if (unrun.length > 0) {
    outcomes.unshift(judgeUnrun(unrun, String(options.stop.reason)));
  }
  return {
    tally: sumTallies(outcomes.map(({ tally }) => tally)),
    conformance: sumTallies(outcomes.map(({ conformance }) => conformance)),
    rows: outcomes.flatMap(({ rows }) => rows),
    failures: outcomes.flatMap(({ failures }) => failures),
    seconds: Object.fromEntries(
      ran.map(({ job, seconds }) => [job.name, seconds]),
    ),
  };
}

/** A job that has run. */
interface Ran {
  readonly job: Job;
  readonly outcome: Outcome;
  readonly seconds: number;
}

/** Runs jobs until it is stopped. */
class Run {
  readonly #options: RunOptions;
  readonly #total: number;
  readonly #forecast: Forecast;
  /** The jobs that run, and since when, in ms. */
  readonly #running = new Map<Job, number>();
  #ended = 0;
  #failed = 0;
  /** Undefined until it is there. */
  #place: TestPlace | undefined;

  constructor(options: RunOptions, names: readonly string[]) {
    this.#options = options;
    this.#total = names.length;
    this.#forecast = new Forecast(options.durations, names);
  }

  /** Runs jobs one after the other. */
  async oneByOne(jobs: readonly Job[]): Promise<Ran[]> {
    const ran: Ran[] = [];
    for (const job of jobs) {
      if (this.#options.stop.aborted) break;
      ran.push(await this.#run(job));
    }
    return ran;
  }

  /** Runs as many jobs at a time as the options and the processors say. */
  async together(jobs: readonly Job[]): Promise<Ran[]> {
    const { jobs: least, more = 0, stop } = this.#options;
    const meter = new IdleMeter();
    const { measureIdle = () => meter.measure() } = this.#options;
    const ran: Ran[] = [];
    const queue = [...jobs];
    const arrival = this.#arrive();
    const endings = new Set<Promise<void>>();
    const begin = (): boolean => {
      const job = stop.aborted ? undefined : this.#takeNext(queue);
      if (job === undefined) return false;
      const ending = this.#run(job).then((one) => {
        ran.push(one);
        endings.delete(ending);
      });
      endings.add(ending);
      return true;
    };
    let watchedMs = performance.now();
    for (;;) {
      while (endings.size < least && begin());
      const isWaiting = queue.length > 0 && !stop.aborted;
      if (endings.size === 0 && !isWaiting) return ran;
      const restMs = watchedMs + WATCH_MS - performance.now();
      const isHere = this.#place !== undefined;
      await waitForAny(isHere ? endings : [...endings, arrival], restMs);
      if (performance.now() < watchedMs + WATCH_MS) continue;
      watchedMs = performance.now();
      const idle = measureIdle();
      const room = Math.min(
        idle < IDLE_ENOUGH ? 0 : Math.max(1, Math.floor(idle)),
        least + more - endings.size,
      );
      for (let count = 0; count < room && begin(); count++);
    }
  }

  /** Waits for what jobs need. */
  async #arrive(): Promise<void> {
    this.#place = await (this.#options.place ??
      { enter: [], enterRootless: [], env: {} });
  }

  /** Takes the first job that may begin now. */
  #takeNext(queue: Job[]): Job | undefined {
    const stress = [...this.#running.keys()]
      .filter(({ isStress }) => isStress).length;
    const index = queue.findIndex(({ isStress, needs }) =>
      (!isStress || stress < STRESS_JOBS) &&
      (needs === undefined || this.#place !== undefined)
    );
    return index < 0 ? undefined : queue.splice(index, 1)[0];
  }

  async #run(job: Job): Promise<Ran> {
    this.#running.set(job, performance.now());
    this.#tell();
    const ran = await runJob(job, this.#options, this.#place);
    this.#running.delete(job);
    this.#forecast.end(job.name);
    this.#ended++;
    if (ran.outcome.tally.failed > 0) this.#failed++;
    this.#tell();
    return ran;
  }

  #tell(): void {
    const running = new Map(
      [...this.#running].map(([{ name }, startMs]) => [name, startMs]),
    );
    const left = this.#forecast.secondsLeft(running);
    const counts = [
      `${this.#ended} of ${this.#total}`,
      this.#failed > 0 && `${this.#failed} failed`,
      `about ${formatSeconds(left)} left`,
    ].filter(Boolean).join(", ");
    const names = [...running.keys()].join(" ");
    this.#options.onProgress?.(`${counts}: ${names}`);
  }
}

/** Waits until one of them ends, or for so many ms. */
async function waitForAny(
  endings: Iterable<Promise<void>>,
  ms: number,
): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, Math.max(ms, 0));
  await Promise.race([...endings, timeout.promise]);
  clearTimeout(timer);
}

async function runJob(
  job: Job,
  options: RunOptions,
  place: TestPlace | undefined,
): Promise<Ran> {
  const { name, args, needs, judge } = job;
  const { root, verbose, stop, print, log } = options;
  const enter = entryOf(needs, place);
  if (typeof enter === "string") {
    const outcome = judgeSkipped(`${name} (skipped: ${enter})`);
    print(formatOutcome(name, 0, outcome));
    return { job, outcome, seconds: 0 };
  }
  const end = await runShard(args, {
    cwd: root,
    enter,
    env: { ...options.env, ...needs === undefined ? {} : place?.env },
    stop,
  });
  log(`==> ${name}\n${end.output}\n`);
  const outcome = judge(name, end);
  const shown = verbose ? end.output : outcome.report;
  print(formatOutcome(name, end.timeMs, { ...outcome, report: shown }));
  return { job, outcome, seconds: end.timeMs / 1000 };
}

/** Returns the command that enters where a job runs; a text if it cannot: why. */
function entryOf(
  needs: Job["needs"],
  place: TestPlace | undefined,
): readonly string[] | string {
  if (needs === "node") return place?.enter ?? [];
  return needs === "rootless node" ? place?.enterRootless ?? [] : [];
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
