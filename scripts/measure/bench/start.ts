/**
 * What it costs to start a process that has next to nothing to do: the part of
 * every call that no plugin can do without.
 *
 * @module
 */

import type { Call, Outcome } from "./call.ts";
import { makeNetns, pause } from "./netns.ts";
import { START } from "./plan.ts";
import { callForVersions } from "./route.ts";
import { hasExecutable } from "./subject.ts";
import { Recording } from "./summary.ts";
import {
  attempt,
  type CellResult,
  SETTLE_MS,
  type Workbench,
} from "./workbench.ts";

/** The executables that get VERSION, if they exist. */
const EXECUTABLES = [
  "host-local",
  "ptp",
  "bridge",
  "portmap",
  "bandwidth",
  "sbr",
  "chain",
  "multus",
] as const;

/** A process that is started. */
interface Start {
  readonly who: string;
  readonly step: string;
  readonly call: Call;
}

/** Measures starts, of all in turns. */
export function measureStarts(bench: Workbench): CellResult {
  bench.progress(START);
  using host = makeNetns();
  const recording = new Recording();
  const { runner, strace, rounds } = bench;
  let starts = [...listVersions(bench), startDeno(bench.directory)];
  const take = (run: (call: Call) => Outcome, isKept = true): void => {
    starts = starts.filter(({ who, step, call }) => {
      pause(SETTLE_MS);
      return attempt(bench, `${START}, ${who}, ${step}`, () => {
        const { measures } = run(call);
        if (isKept) recording.add(who, step, measures);
      });
    });
  };
  for (let round = -rounds.warmUp; round < rounds.single; round++) {
    take((call) => runner.runTimed(call, host), round >= 0);
  }
  for (let round = 0; round < rounds.peak; round++) {
    take((call) => runner.runForPeak(call, host));
  }
  if (strace) take((call) => runner.runTraced(call, host, strace));
  return { name: START, series: recording.list() };
}

function listVersions({ subjects }: Workbench): Start[] {
  return EXECUTABLES.flatMap((name) =>
    subjects.filter(({ bin }) => hasExecutable(bin, name))
      .map(({ name: who, bin }) => {
        const call = callForVersions(`${bin}/${name}`);
        return { who, step: `VERSION ${name}`, call };
      })
  );
}

/** Deno itself, with a program of one line: no executable of ours starts faster. */
function startDeno(directory: string): Start {
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
