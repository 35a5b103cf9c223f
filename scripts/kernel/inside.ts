/**
 * Runs test files in the kernel that `deno task test:kernel` boots.
 *
 * @module
 */

import { formatTally } from "../tally.ts";
import { testFiles } from "../test/jobs.ts";
import { planBatches, type TestFile } from "../test/plan.ts";
import { runAll } from "../test/run_all.ts";
import { createStop } from "../test/stop.ts";

/** The files to run inside, and how; passed as a file of JSON. */
export interface InsideRun {
  /** A URL. */
  readonly root: string;
  readonly files: readonly TestFile[];
  /** Flags for any deno command. */
  readonly flags: readonly string[];
  /** More arguments for `deno test`. */
  readonly testArgs: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly verbose: boolean;
  /** How long the tests may take. */
  readonly limitMs: number;
}

async function main(path: string): Promise<void> {
  const run = JSON.parse(await Deno.readTextFile(path)) as InsideRun;
  const { deno } = Deno.version;
  console.log(`Running in Linux ${Deno.osRelease()} by deno ${deno}`);
  const durations = { whole: 0, files: {} };
  const jobs = planBatches(run.files, durations)
    .map((batch) => testFiles(batch, run));
  const { tally, conformance, rows } = await runAll(jobs, {
    ...run,
    root: new URL(run.root),
    jobs: 1,
    durations,
    stop: createStop(run.limitMs),
    print: (text) => console.log(text),
    log: () => {},
  });
  const directory = path.slice(0, path.lastIndexOf("/"));
  await Deno.writeTextFile(`${directory}/rows.json`, JSON.stringify(rows));
  console.log(`conformance rows: ${formatTally(conformance)}`);
  console.log(formatTally(tally));
}

if (import.meta.main) await main(Deno.args[0] ?? "");
