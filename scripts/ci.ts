/**
 * Runs the whole gate, the same here and in CI: what `deno task ok` does.
 *
 * Every stage runs, even after one has failed. A stage prints one line with
 * its time, and what it has to say if it fails; the tests always do. They run
 * in the machine's kernel, and a part of them in another one. The last
 * lines name the stages that failed, and count tests and stages.
 *
 * @module
 */

import project from "../deno.json" with { type: "json" };
import { answerHelp } from "./help.ts";
import { importFlags } from "./net.ts";
import { findTally, formatTally, sumTallies, type Tally } from "./tally.ts";
import { tee } from "./tee.ts";
import { createStop } from "./test/stop.ts";

const ROOT = new URL("..", import.meta.url);

/** The stage in the second kernel: scripts/test_kernel.ts. */
const KERNEL_TESTS = "tests in User-mode Linux";

/** A stage of the gate: its name, and the arguments of deno that run it. */
interface Stage {
  readonly name: string;
  readonly args: readonly string[];
}

/** Returns the stages that only look at the sources. */
function listStages(flags: readonly string[]): Stage[] {
  return [
    { name: "format", args: ["fmt", "--check"] },
    { name: "lint", args: ["lint"] },
    { name: "types", args: ["check", ...flags, "."] },
    {
      name: "import cycles",
      args: ["run", "-A", ...flags, "scripts/import_cycles.ts"],
    },
    {
      name: "docs",
      args: ["doc", "--lint", ...flags, ...Object.values(project.exports)],
    },
  ];
}

function printStage(name: string, success: boolean, startMs: number): void {
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  console.log(`${success ? "ok    " : "FAILED"} ${name} (${seconds} s)`);
}

/** Runs a stage silently, unless it fails. */
async function runStage({ name, args }: Stage): Promise<Tally> {
  const startMs = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    stdin: "null",
  }).output();
  printStage(name, success, startMs);
  if (success) return { passed: 1, failed: 0, skipped: 0 };
  const decoder = new TextDecoder();
  console.log(decoder.decode(stdout) + decoder.decode(stderr));
  return { passed: 0, failed: 1, skipped: 0 };
}

/** Runs a command that people run, and counts what it counted. */
async function runTask(
  name: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<Tally> {
  const startMs = performance.now();
  const { output, success } = await tee(Deno.execPath(), {
    args: ["task", ...args],
    cwd: ROOT,
    signal,
  });
  printStage(name, success, startMs);
  const stage = {
    passed: Number(success),
    failed: Number(!success),
    skipped: 0,
  };
  return sumTallies([findTally(output) ?? sumTallies([]), stage]);
}

const HELP = `Run the whole gate: format, lint, types, docs and tests.

Usage: deno task ok

It takes about 15 minutes on two cores, and needs root for most tests.`;

if (import.meta.main) {
  answerHelp(HELP);
  const tallies = new Map<string, Tally>();
  for (const stage of listStages(await importFlags())) {
    tallies.set(stage.name, await runStage(stage));
  }
  const stop = createStop();
  tallies.set("tests", await runTask("tests", ["test"], stop));
  // Afterwards, not beside them: there are tests that measure times and rates.
  const kernel = ["test:kernel", "--core"];
  tallies.set(KERNEL_TESTS, await runTask(KERNEL_TESTS, kernel, stop));
  const tally = sumTallies([...tallies.values()]);
  const failed = [...tallies].filter(([, { failed }]) => failed > 0);
  if (failed.length > 0) {
    console.log(`Failed: ${failed.map(([name]) => name).join(", ")}`);
  }
  console.log(formatTally(tally));
  Deno.exitCode = tally.failed > 0 ? 1 : 0;
}
