/**
 * Runs processes, several at a time, and shows how each ended.
 *
 * @module
 */

import { type Batch, mayDownload, STRESS } from "./files.ts";
import {
  type Kind,
  type Outcome,
  outcomeOf,
  type ProcessEnd,
  readOutcome,
  sumTallies,
  withoutReport,
} from "./outcome.ts";

/** Something to run: a command of deno. */
export interface Job {
  readonly name: string;
  readonly args: readonly string[];
  readonly kind: Kind;
  /** What it waits for, and where it runs; nothing by default. */
  readonly needs?: "executables" | "node" | "rootless node";
  /** Whether it loads cores by many processes: few of these run together. */
  readonly isStress?: boolean;
}

/** Where tests run. */
export interface TestPlace {
  /** A command that enters the namespaces of a node, in front of those in one. */
  readonly enter: readonly string[];
  /** The same of a node in a user namespace; a text if none can be made: why. */
  readonly enterRootless: readonly string[] | string;
  /** Variables for all jobs that wait for it. */
  readonly env: Readonly<Record<string, string>>;
}

/** Loads the test files that its arguments name. */
const LOADER = decodeURIComponent(
  new URL("load_files.ts", import.meta.url).pathname,
);

/** Runs tests, whose types were checked before, and prints a report behind their output. */
const TEST: readonly string[] = [
  "test",
  "-A",
  "--no-check",
  "--junit-path=-",
];

/**
 * Returns the job that runs test files in one process.
 *
 * @param flags For deno test
 */
export function testFiles(
  { name, paths }: Batch,
  flags: readonly string[],
): Job {
  const what = paths.length === 1 ? paths : [LOADER, "--", ...paths];
  return {
    name,
    args: [...TEST, ...flags, ...what],
    kind: "tests",
    needs: paths.some(mayDownload) ? "executables" : "node",
    isStress: paths.some((path) => STRESS.test(path)),
  };
}

/** How to run jobs. */
export interface RunOptions {
  /** The directory that the files are named from. */
  readonly root: URL;
  /** Variables for all jobs, beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** What jobs wait for that need executables or a node; nothing by default. */
  readonly place?: Promise<TestPlace>;
  /** How many jobs run at the same time; by default as many as the machine can do. */
  readonly jobs?: number | undefined;
  /** Ends the run; its reason is printed. */
  readonly stop: AbortSignal;
  /** Shows something. */
  readonly print: (text: string) => void;
  /** Shows how far the run is, and what is running. */
  readonly onProgress?: (text: string) => void;
  /** Keeps everything that deno printed. */
  readonly log: (text: string) => void;
}

/** The outcome of all jobs. */
export type RunResult = Pick<Outcome, "tally" | "failures">;

/** Most tests wait for most of their time, for the kernel or a clock. */
const JOBS_OF_CORE = 4;

/** More would fill the memory: each is a process of 150 MB, and starts others. */
const MOST_JOBS = 12;

/** How many jobs run at the same time that load cores by themselves. */
const STRESS_JOBS = 2;

/** Runs jobs beside each other, beginning in this order. What fails is shown in full, the rest by a line. */
export async function runAll(
  jobs: readonly Job[],
  options: RunOptions,
): Promise<RunResult> {
  const { stop, onProgress = () => {} } = options;
  const cores = navigator.hardwareConcurrency;
  const width = options.jobs ?? Math.min(cores * JOBS_OF_CORE, MOST_JOBS);
  const queue = [...jobs];
  const running: Job[] = [];
  const outcomes: Outcome[] = [];
  const tell = (): void => {
    const failed = outcomes.filter(({ tally }) => tally.failed > 0).length;
    const counts = `${outcomes.length} of ${jobs.length}` +
      (failed > 0 ? `, ${failed} failed` : "");
    onProgress(`${counts}: ${running.map(({ name }) => name).join(" ")}`);
  };
  const takeNext = (): Job | undefined => {
    const stress = running.filter(({ isStress }) => isStress).length;
    const index = queue.findIndex(({ isStress }) =>
      !isStress || stress < STRESS_JOBS
    );
    return index < 0 || stop.aborted ? undefined : queue.splice(index, 1)[0];
  };
  const work = async (): Promise<void> => {
    for (let job = takeNext(); job !== undefined; job = takeNext()) {
      running.push(job);
      tell();
      const place = job.needs === undefined ? undefined : await options.place;
      if (stop.aborted) return void queue.push(job);
      outcomes.push(await runJob(job, options, place));
      running.splice(running.indexOf(job), 1);
      tell();
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  if (queue.length > 0) {
    const names = queue.map(({ name }) => `\n    ${name}`).join("");
    const what = `Not run (${queue.length}): ${stop.reason}`;
    outcomes.push(outcomeOf("failed", what + names));
  }
  return {
    tally: sumTallies(outcomes.map(({ tally }) => tally)),
    failures: outcomes.flatMap(({ failures }) => failures),
  };
}

async function runJob(
  { name, args, kind, needs }: Job,
  { root, env, stop, print, log }: RunOptions,
  place: TestPlace | undefined,
): Promise<Outcome> {
  const enter = entryOf(needs, place);
  if (typeof enter === "string") {
    const outcome = outcomeOf("skipped", `${name} (skipped: ${enter})`);
    print(formatOutcome(name, outcome));
    return outcome;
  }
  const end = await runProcess([Deno.execPath(), ...args], {
    cwd: decodeURIComponent(root.pathname),
    enter,
    env: { ...env, ...place?.env },
    stop,
  });
  log(`==> ${name}\n${withoutReport(end.output)}\n`);
  const outcome = readOutcome(name, kind, end);
  print(formatOutcome(name, outcome, end));
  return outcome;
}

/** Returns the command that enters where a job runs; a text if it cannot: why. */
function entryOf(
  needs: Job["needs"],
  place: TestPlace | undefined,
): readonly string[] | string {
  if (needs === "node") return place?.enter ?? [];
  return needs === "rootless node" ? place?.enterRootless ?? [] : [];
}

const PASSED = /^ *\S.* \.\.\. (?:ok|ignored) \(.*\)$/;

/** Renders a line on a job, the names of what it skipped, and what it printed if it failed. */
function formatOutcome(
  name: string,
  { tally, skipped }: Outcome,
  end?: ProcessEnd,
): string {
  const counts = (["passed", "failed", "skipped"] as const)
    .filter((what) => tally[what] > 0).map((what) => `${tally[what]} ${what}`);
  const verdict = tally.failed > 0 ? "FAILED" : "ok    ";
  const [seconds, cpu] = [end?.seconds ?? 0, end?.cpuSeconds ?? 0]
    .map((one) => one.toFixed(1));
  const time = `(${seconds} s, ${cpu} s of CPU time)`;
  const line = [verdict, name, counts.join(", "), time].filter(Boolean)
    .join(" ");
  const lines = [line, ...skipped.map((one) => `         ${one}`)];
  if (tally.failed === 0) return lines.join("\n");
  const printed = withoutReport(end?.output ?? "").split("\n")
    .filter((line) => !PASSED.test(line)).join("\n").trim();
  return [...lines, "", printed, ""].join("\n");
}

/** How to run a process. */
export interface ProcessOptions {
  readonly cwd: string;
  /** A command that enters namespaces, in front of this one; none by default. */
  readonly enter?: readonly string[];
  /** Variables beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** Stops the process and its descendants, and reports the signal's reason. */
  readonly stop: AbortSignal;
  /** Is given what the process prints, as it comes. */
  readonly onText?: (text: string) => void | Promise<void>;
}

/** How long a process may take to end, and its children to close its output after it. */
const GRACE_MS = 5000;

/** Runs a command in a new process group, without stdin. */
export async function runProcess(
  command: readonly string[],
  { cwd, enter = [], env, stop, onText = () => {} }: ProcessOptions,
): Promise<ProcessEnd> {
  const startMs = performance.now();
  // The shell is in the directory as it is mounted there. It has both outputs
  // come by one pipe, in order, and is then the command.
  const script = 'cd "$0" && exec "$@" 2>&1';
  const [program = "", ...args] = [...enter, "sh", "-c", script, cwd]
    .concat(command);
  await using child = new Deno.Command(program, {
    args,
    env: { ...env },
    stdin: "null",
    stdout: "piped",
    detached: true,
  }).spawn();
  const reading = new Reading(child.stdout, onText);
  let stopped: string | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // First it is asked, for it may have started leaders of other groups itself.
  const end = (): void => {
    stopped = String(stop.reason);
    send(child.pid, "SIGTERM");
    timer = setTimeout(() => send(-child.pid, "SIGKILL"), GRACE_MS);
  };
  stop.addEventListener("abort", end);
  if (stop.aborted) end();
  const { code, signal } = await child.status;
  const cpuSeconds = takeCpuSeconds();
  stop.removeEventListener("abort", end);
  clearTimeout(timer);
  if (stopped !== undefined) send(-child.pid, "SIGKILL");
  const seconds = (performance.now() - startMs) / 1000;
  const leftBehind = !await reading.endsWithin(GRACE_MS);
  if (leftBehind) send(-child.pid, "SIGKILL");
  const { text: output } = reading;
  return { output, code, signal, stopped, leftBehind, seconds, cpuSeconds };
}

let counted = 0;

/**
 * Returns the processor time of the children that have ended since the last call: of
 * one, unless two end at once, or what the tests need was built in between. The first
 * jobs that end seem to take the time of the Go compiler.
 *
 * Source: proc_pid_stat(5), cutime and cstime, in hundredths of a second.
 */
function takeCpuSeconds(): number {
  const stat = Deno.readTextFileSync("/proc/self/stat");
  const fields = stat.slice(stat.lastIndexOf(")")).split(" ");
  const all = (Number(fields[14]) + Number(fields[15])) / 100;
  const taken = all - counted;
  counted = all;
  return taken;
}

/** Collects text from a stream. */
class Reading {
  text = "";
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly #done: Promise<void>;

  constructor(
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
    onText: (text: string) => void | Promise<void>,
  ) {
    this.#reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    this.#done = this.#read(onText);
  }

  async #read(onText: (text: string) => void | Promise<void>): Promise<void> {
    while (true) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      this.text += value;
      await onText(value);
    }
  }

  /** Waits for the end of the stream, at most so many ms, and stops reading. */
  async endsWithin(ms: number): Promise<boolean> {
    let ended = true;
    const timer = setTimeout(() => {
      ended = false;
      this.#reader.cancel();
    }, ms);
    await this.#done;
    clearTimeout(timer);
    return ended;
  }
}

/** Sends a signal to a process, or to a group (negative), if there still is one. */
function send(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Signals of Ctrl-C, a supervisor and a closed terminal. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Returns a signal that is aborted by one of the operating system, or when the
 * time is over. Its reason is a text that says which.
 *
 * @param limitMs How long a run may take, in ms
 */
export function createStop(limitMs: number): AbortSignal {
  const stop = new AbortController();
  for (const signal of SIGNALS) {
    Deno.addSignalListener(signal, () => stop.abort(`${signal} has come`));
  }
  const why = `the limit of ${limitMs / 1000} s for all tests is over`;
  Deno.unrefTimer(setTimeout(() => stop.abort(why), limitMs));
  return stop.signal;
}
