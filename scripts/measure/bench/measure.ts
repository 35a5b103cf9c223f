/**
 * The part of a run that measures: in namespaces of its own, cell after cell, all
 * candidates in turns.
 *
 * @module
 */

import { findColumns, Progress } from "../../../base/command_line/progress.ts";
import { writeStderr } from "../../../base/process/stdio.ts";
import { type Call, CallFailure, CallRunner, type Times } from "./call.ts";
import {
  type Cell,
  chooseRounds,
  type PlanInput,
  planScenarios,
  type Rounds,
  type Scenario,
} from "./cells.ts";
import { hideSharedDirectories, makeNetns, pause } from "./isolation.ts";
import { BenchNode, FILL_WIDTH, type Job } from "./node.ts";
import {
  type Attachment,
  byDaemon,
  callForVersions,
  type ChainName,
  CHAINS,
  listExecutables,
  oneByOne,
  type Route,
  ROUTES,
  type Verb,
} from "./route.ts";
import { hasExecutable, OURS, type Subject } from "./subject.ts";
import { Recording, type Row, sumTimes } from "./summary.ts";

/** The input of the measuring process. */
export interface Task extends PlanInput {
  readonly subjects: readonly Subject[];
  /** The command that runs a script of this project. */
  readonly deno: readonly string[];
  /** An empty directory that is to be hidden. */
  readonly directory: string;
}

/** Its output. */
export interface Answer {
  /** What could not be measured, and why. */
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
}

/** The name of the cell of starts alone. */
const START = "start of a process";

/** Measures everything that the task asks for. Only for a process that is isolated. */
export function measureAll(task: Task): Answer {
  const bins = task.subjects.map(({ bin }) => bin);
  hideSharedDirectories(task.directory, [...bins, Deno.execPath(), Deno.cwd()]);
  using bench = new Session(task);
  return {
    rows: [
      ...START.includes(task.filter) && task.growth === undefined
        ? measureStarts(bench)
        : [],
      ...planScenarios(task).flatMap((one) => measureScenario(one, bench)),
    ],
    notes: bench.notes,
  };
}

/**
 * How long the kernel is left alone between candidates, so that what it still
 * does for the one is not counted against the next.
 */
const SETTLE_MS = 20;

/** What all measurements share. */
class Session implements Disposable {
  readonly task: Task;
  readonly runner: CallRunner;
  readonly rounds: Rounds;
  readonly notes: string[] = [];
  readonly #progress: Progress;

  constructor(task: Task) {
    this.task = task;
    this.rounds = chooseRounds(task);
    this.runner = new CallRunner(this.makeDirectory());
    const columns = findColumns(Deno.env.toObject());
    this.#progress = new Progress(writeStderr, columns);
  }

  /** Makes a directory in memory. */
  makeDirectory(): string {
    return Deno.makeTempDirSync({ dir: this.task.directory });
  }

  /** Shows what is being measured. */
  show(name: string): void {
    this.#progress.show(name);
  }

  /** Reports that something cannot be measured. */
  note(text: string): void {
    this.#progress.print(() => console.error(text));
    this.notes.push(text);
  }

  /** Reports whether `work` finished, and notes the reason if a call failed. */
  attempt(what: string, work: () => void): boolean {
    try {
      work();
      return true;
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      this.note(`Skipped ${what}: ${error.message}`);
      return false;
    }
  }

  [Symbol.dispose](): void {
    this.#progress[Symbol.dispose]();
  }
}

/** The executables that get VERSION, if they exist. */
const STARTED = "host-local ptp bridge portmap bandwidth sbr chain multus";

/** Measures what it costs to start a process that has next to nothing to do. */
function measureStarts(bench: Session): Row[] {
  bench.show(START);
  using host = makeNetns();
  const recording = new Recording();
  const versions = STARTED.split(" ").flatMap((name) =>
    bench.task.subjects.filter(({ bin }) => hasExecutable(bin, name))
      .map(({ name: who, bin }) => {
        const call = callForVersions(`${bin}/${name}`);
        return { who, step: `VERSION ${name}`, call };
      })
  );
  let starts = [...versions, startDeno(bench.makeDirectory())];
  const { warmUp, single } = bench.rounds;
  for (let round = -warmUp; round < single; round++) {
    starts = starts.filter(({ who, step, call }) => {
      pause(SETTLE_MS);
      return bench.attempt(`${START}, ${who}, ${step}`, () => {
        const times = bench.runner.run(call, host);
        if (round >= 0) recording.add(who, step, times);
      });
    });
  }
  return recording.summarize(START);
}

/** Deno itself, with a program of one line: no executable of ours starts faster. */
function startDeno(
  directory: string,
): { readonly who: string; readonly step: string; readonly call: Call } {
  const script = `${directory}/one_line.js`;
  Deno.writeTextFileSync(
    script,
    "Deno.stdout.writeSync(new Uint8Array(1));\n",
  );
  const call: Call = {
    path: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", "--no-remote", script],
    env: { DENO_DIR: `${directory}/deno`, DENO_NO_UPDATE_CHECK: "1" },
    stdin: "",
  };
  return { who: "deno", step: "run one line", call };
}

/** Measures all cells of a scenario, on nodes that end with it. */
function measureScenario(
  { chain, masquerade, cells }: Scenario,
  bench: Session,
): Row[] {
  using stack = new DisposableStack();
  const { task, runner } = bench;
  const nodes = task.subjects
    .filter((subject) => hasAll(subject, listExecutables(chain), bench))
    .map((subject) => {
      const directory = bench.makeDirectory();
      const parts = { subject, chain, masquerade, runner, directory };
      return stack.use(new BenchNode({ ...parts, deno: task.deno }));
    });
  let candidates = nodes.flatMap((node) => listCandidates(node, chain))
    .filter((one) => task.growth === undefined || one.isPluginByPlugin)
    .filter((one) => bench.attempt(one.who, () => one.prepare()));
  return cells.flatMap((cell) => {
    bench.show(cell.name);
    const fit = new Set(
      nodes.filter((node) =>
        bench.attempt(`${cell.name}, ${node.subject.name}`, () => {
          node.grow(cell.containers);
        })
      ),
    );
    candidates = candidates.filter(({ node }) => fit.has(node));
    const wanted = candidates.filter(({ drains }) => drains || !cell.isDrain);
    return measureCell(cell, wanted, bench);
  });
}

function hasAll(
  { name, bin }: Subject,
  types: readonly string[],
  bench: Session,
): boolean {
  const missing = types.filter((type) => !hasExecutable(bin, type));
  if (missing.length === 0) return true;
  bench.note(`Skipped ${name}: no ${missing.join(", ")} in ${bin}`);
  return false;
}

/** Measures a cell in turns, A B A B, so that disturbances affect all. */
function measureCell(
  cell: Cell,
  candidates: readonly Candidate[],
  bench: Session,
): Row[] {
  // Closed at the end only: the kernel takes them apart in the background.
  using sandboxes = new DisposableStack();
  const recording = new Recording();
  const { warmUp, single, batch, drain } = bench.rounds;
  const rounds = cell.isDrain ? drain : cell.parallel > 1 ? batch : single;
  let lasting = candidates;
  for (let round = cell.isDrain ? 0 : -warmUp; round < rounds; round++) {
    const kept = round < 0 ? new Recording() : recording;
    lasting = lasting.filter((candidate) => {
      const { who, node } = candidate;
      const attachments = Array.from(
        { length: cell.parallel },
        () => node.newAttachment(sandboxes.use(makeNetns())),
      );
      pause(SETTLE_MS);
      return bench.attempt(`${cell.name}, ${who}`, () => {
        candidate.take(
          cell,
          attachments,
          (step, times) => kept.add(who, step, times),
        );
      });
    });
  }
  for (const one of candidates) {
    if (!lasting.includes(one)) recording.drop(one.who);
  }
  return recording.summarize(cell.name, cell);
}

/** Takes the times of a step. */
type Receiver = (step: string, times: Times) => void;

/** The executables of one owner, run in one way, on a node of their own. */
class Candidate {
  readonly node: BenchNode;
  readonly #route: Route;

  /** Has a node's executables run in one way. */
  constructor(node: BenchNode, route: Route) {
    this.node = node;
    this.#route = route;
  }

  /** Its name in tables. */
  get who(): string {
    return `${this.node.subject.name} ${this.#route.name}`.trim();
  }

  /** Whether it runs each plugin by itself, with or without the node daemon. */
  get isPluginByPlugin(): boolean {
    return this.#route === oneByOne || this.#route === byDaemon;
  }

  /** Whether a drain is measured with it: with the daemon, and with others' plugins. */
  get drains(): boolean {
    return this.#route === byDaemon ||
      this.#route === oneByOne && this.node.subject.name !== OURS;
  }

  /**
   * Provides what its calls need on the node.
   *
   * @throws {CallFailure} If the daemon does not start
   */
  prepare(): void {
    if (this.#route.daemon) this.node.startDaemon(this.#route.daemon);
  }

  /**
   * Takes its turn in a cell.
   *
   * @throws {CallFailure} Of the first call that fails; the containers are detached
   */
  take(
    { parallel, isDrain }: Cell,
    attachments: readonly Attachment[],
    record: Receiver,
  ): void {
    if (isDrain) return this.#drain(attachments, record);
    for (const verb of ["ADD", "DEL"] as const) {
      this.#do(verb, attachments, (jobs) => {
        const run = parallel > 1
          ? () => this.node.run(jobs, parallel)
          : () => sumTimes(jobs.map((job) => this.node.runInTurn(job)));
        record(verb, this.#withDaemon(run));
      });
    }
  }

  /** Attaches all containers, and measures how long it takes to detach them. */
  #drain(attachments: readonly Attachment[], record: Receiver): void {
    for (
      const [step, width] of [
        ["DEL, one after the other", 1],
        ["DEL, all at once", attachments.length],
      ] as const
    ) {
      this.#do("ADD", attachments, (jobs) => {
        this.node.run(jobs, FILL_WIDTH);
      });
      pause(SETTLE_MS);
      this.#do("DEL", attachments, (jobs) => {
        record(step, this.node.run(jobs, width));
      });
    }
  }

  /** The daemon's part belongs to the call that it was done for. */
  #withDaemon(run: () => Times): Times {
    const before = this.node.cpuMsOf(this.#route.daemon);
    const { wallMs, cpuMs } = run();
    const after = this.node.cpuMsOf(this.#route.daemon);
    return { wallMs, cpuMs: cpuMs + after - before };
  }

  /** Does something with attachments, and leaves no half of one to those who come after. */
  #do(
    verb: Verb,
    attachments: readonly Attachment[],
    run: (jobs: readonly Job[]) => void,
  ): void {
    const jobs = attachments.map((attachment) =>
      this.node.plan(verb, attachment, this.#route)
    );
    try {
      run(jobs);
    } catch (error) {
      for (const attachment of attachments) this.node.detach(attachment);
      throw error;
    }
  }
}

/** Lists the candidates that can run a chain on a node: plugin by plugin, and in one process. */
function listCandidates(node: BenchNode, chain: ChainName): Candidate[] {
  const { bin, multus = bin, thickDaemon } = node.subject;
  const plugins: readonly string[] = CHAINS[chain];
  return ROUTES.filter(({ name, executable, daemon }) =>
    executable === undefined ||
    (plugins.length > 1 || name === "daemon") &&
      (daemon !== "thick" || thickDaemon !== undefined) &&
      hasExecutable(executable.startsWith("multus") ? multus : bin, executable)
  ).map((route) => new Candidate(node, route));
}
