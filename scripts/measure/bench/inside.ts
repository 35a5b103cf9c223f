/**
 * The part of a run that measures, in isolation.
 *
 * @module
 */

import { findColumns, Progress } from "../../../base/command_line/progress.ts";
import { writeStderr } from "../../../base/process/stdio.ts";
import { measureStarts } from "./start.ts";
import { CallRunner, findStrace, PATH } from "./call.ts";
import {
  type Contestant,
  listContestants,
  type Run,
  type Turn,
} from "./contestant.ts";
import { hideSharedDirectories } from "./isolation.ts";
import { makeNetns, pause } from "./netns.ts";
import { BenchNode } from "./node.ts";
import {
  type Cell,
  type Plan,
  planBench,
  type PlanInput,
  type Scenario,
} from "./plan.ts";
import { adoptOrphans } from "./process.ts";
import { listExecutables } from "./route.ts";
import { hasExecutable, type Subject } from "./subject.ts";
import { Recording, type Row, summarize } from "./summary.ts";
import {
  attempt,
  type CellResult,
  SETTLE_MS,
  type Workbench,
} from "./workbench.ts";

/** Measures all cells of a scenario, on nodes that are gone then. */
function measureScenario(
  { chain, masquerade, cells }: Scenario,
  bench: Workbench,
): CellResult[] {
  using stack = new DisposableStack();
  const nodes = bench.subjects
    .filter((subject) => hasAll(subject, listExecutables(chain), bench))
    .map((subject) => {
      const directory = Deno.makeTempDirSync({ dir: bench.directory });
      const { runner, deno } = bench;
      const parts = { subject, chain, masquerade, runner, directory, deno };
      return stack.use(new BenchNode(parts));
    });
  let contestants = nodes.flatMap((node) => listContestants(node, chain))
    .filter((one) => attempt(bench, one.who, () => one.prepare()));
  return cells.map((cell) => {
    bench.progress(cell.name);
    const fit = new Set(
      nodes.filter((node) =>
        attempt(bench, `${cell.name}, ${node.subject.name}`, () => {
          node.grow(cell.containers);
        })
      ),
    );
    contestants = contestants.filter(({ node }) => fit.has(node));
    const wanted = contestants.filter(({ drains }) => drains || !cell.isDrain);
    return measureCell(cell, wanted, bench);
  });
}

function hasAll(
  { name, bin }: Subject,
  types: readonly string[],
  bench: Workbench,
): boolean {
  const missing = types.filter((type) => !hasExecutable(bin, type));
  if (missing.length === 0) return true;
  bench.note(`Skipped ${name}: no ${missing.join(", ")} in ${bin}`);
  return false;
}

/** One kind of measuring: how often, and how. */
interface Way {
  /** Rounds before those that count. */
  readonly warmUp: number;
  readonly rounds: number;
  readonly take: (contestant: Contestant, turn: Turn) => void;
}

/** Lists the ways to measure a cell: memory and system calls need separate runs. */
function listWays(
  { parallel, isDrain }: Cell,
  { runner, rounds, strace }: Workbench,
): Way[] {
  const { warmUp, single, batch, peak } = rounds;
  if (isDrain) {
    const take: Way["take"] = (contestant, turn) =>
      contestant.runDrain(turn, runner);
    return [{ warmUp: 0, rounds: peak, take }];
  }
  if (parallel > 1) {
    const take: Way["take"] = (contestant, turn) =>
      contestant.runTogether(turn, runner);
    return [{ warmUp, rounds: batch, take }];
  }
  const inTurn = (run: Run): Way["take"] => (contestant, turn) =>
    contestant.runInTurn(turn, run);
  const timed = inTurn((call, host) => runner.runTimed(call, host));
  const forPeak = inTurn((call, host) => runner.runForPeak(call, host));
  const ways = [
    { warmUp, rounds: single, take: timed },
    { warmUp: 0, rounds: peak, take: forPeak },
  ];
  if (strace === undefined) return ways;
  const traced = inTurn((call, host) => runner.runTraced(call, host, strace));
  return [...ways, { warmUp: 0, rounds: 1, take: traced }];
}

/** Measures a cell in turns, A B A B, so that disturbances affect all. */
function measureCell(
  cell: Cell,
  contestants: readonly Contestant[],
  bench: Workbench,
): CellResult {
  // Closed at the end only: the kernel takes them apart in the background.
  using sandboxes = new DisposableStack();
  const [recording, unused] = [new Recording(), new Recording()];
  let lasting = contestants;
  for (const { warmUp, rounds, take } of listWays(cell, bench)) {
    for (let round = -warmUp; round < rounds; round++) {
      const kept = round < 0 ? unused : recording;
      lasting = lasting.filter((contestant) => {
        const turn = prepareTurn(cell, contestant, { bench, recording: kept });
        turn.sandboxes.forEach((netns) => sandboxes.use(netns));
        pause(SETTLE_MS);
        return attempt(bench, `${cell.name}, ${contestant.who}`, () => {
          take(contestant, turn);
        });
      });
    }
  }
  for (const { who } of contestants.filter((one) => !lasting.includes(one))) {
    recording.drop(who);
  }
  return { name: cell.name, series: recording.list() };
}

function prepareTurn(
  { name, verbs, parallel }: Cell,
  { who }: Contestant,
  { bench, recording }: { bench: Workbench; recording: Recording },
): Turn {
  return {
    verbs,
    sandboxes: Array.from({ length: parallel }, makeNetns),
    record: (step, measures) => recording.add(who, step, measures),
    omit: (failure) => {
      bench.note(`Skipped CHECK of ${name}, ${who}: ${failure.message}`);
      recording.drop(who, "CHECK");
    },
  };
}

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
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
}

/** Measures everything that the task asks for. Only for a process that is isolated. */
export function measureAll(task: Task): Answer {
  const { subjects, deno, directory } = task;
  const bins = subjects.map(({ bin }) => bin);
  hideSharedDirectories(directory, [...bins, Deno.execPath(), Deno.cwd()]);
  adoptOrphans();
  const notes: string[] = [];
  const plan = planBench(
    task,
    (chain) =>
      listExecutables(chain)
        .every((name) => hasExecutable(subjects[0]?.bin ?? "", name)),
  );
  using progress = new Progress(writeStderr, findColumns(Deno.env.toObject()));
  const bench: Workbench = {
    subjects,
    deno,
    runner: new CallRunner(Deno.makeTempDirSync({ dir: directory })),
    strace: findStrace(PATH),
    rounds: plan.rounds,
    directory,
    note(text): void {
      progress.print(() => console.error(text));
      notes.push(text);
    },
    progress: (text) => progress.show(text),
  };
  if (bench.strace === undefined) {
    bench.note("Skipped execs and syscalls: strace is not there, or may not");
  }
  return { rows: measurePlan(plan, bench), notes };
}

function measurePlan(plan: Plan, bench: Workbench): Row[] {
  const starts = plan.start ? [measureStarts(bench)] : [];
  const chains = plan.scenarios.flatMap((scenario) =>
    measureScenario(scenario, bench).flatMap(({ name, series }, at) =>
      summarize(name, series, scenario.cells[at])
    )
  );
  return [
    ...starts.flatMap(({ name, series }) => summarize(name, series)),
    ...chains,
  ];
}
