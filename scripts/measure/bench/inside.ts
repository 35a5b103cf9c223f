/**
 * The part of a run that measures, in isolation.
 *
 * @module
 */

import { writeStderr } from "../../../cni/process/stdio.ts";
import { findColumns, Progress } from "../../../cli/program/progress.ts";
import { CallRunner, PATH } from "./call.ts";
import { type ChainName, listExecutables } from "./chain.ts";
import { measureKernelRequests } from "./kernel_requests.ts";
import type { BenchOptions } from "./options.ts";
import { type Plan, planBench } from "./plan.ts";
import { adoptOrphans } from "./process.ts";
import { measureScenario } from "./scenario.ts";
import { measureStarts } from "./start.ts";
import { hideSharedDirectories } from "./shared_directories.ts";
import { findStrace } from "./strace.ts";
import { hasExecutable, type Subject } from "./subject.ts";
import { type Row, summarize } from "./summary.ts";
import type { Workbench } from "./workbench.ts";

/** The input of the measuring process. */
export interface Task extends
  Pick<
    BenchOptions,
    "quick" | "growth" | "rounds" | "filter"
  > {
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
  const plan = planBench(task, (chain) => hasAll(subjects[0], chain));
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

function hasAll(subject: Subject | undefined, chain: ChainName): boolean {
  return listExecutables(chain)
    .every((name) => hasExecutable(subject?.bin ?? "", name));
}

function measurePlan(plan: Plan, bench: Workbench): Row[] {
  const alone = [
    ...plan.start ? [measureStarts(bench)] : [],
    ...plan.kernelRequests ? [measureKernelRequests(bench)] : [],
  ];
  const chains = plan.scenarios.flatMap((scenario) =>
    measureScenario(scenario, bench).flatMap(({ name, series }, at) =>
      summarize(name, series, scenario.cells[at])
    )
  );
  return [
    ...alone.flatMap(({ name, series }) => summarize(name, series)),
    ...chains,
  ];
}
