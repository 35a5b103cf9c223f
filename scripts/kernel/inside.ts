/**
 * Runs test files in the kernel that `deno task test:kernel` boots.
 *
 * @module
 */

import { planBatches, type TestFile } from "../test/files.ts";
import { formatTally } from "../test/outcome.ts";
import { createStop, runAll, testFiles } from "../test/run.ts";

/** The files to run inside, and how; passed as a file of JSON. */
export interface InsideRun {
  /** A URL. */
  readonly root: string;
  readonly files: readonly TestFile[];
  /** Flags for deno test. */
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** How long the tests may take. */
  readonly limitMs: number;
}

async function main(path: string): Promise<void> {
  const run = JSON.parse(await Deno.readTextFile(path)) as InsideRun;
  const { deno } = Deno.version;
  console.log(`Running in Linux ${Deno.osRelease()} by deno ${deno}`);
  // Beside the file, where the machine can read it.
  using log = await Deno.create(path.replace(/[^/]*$/, "test.log"));
  const encoder = new TextEncoder();
  // A process that starts takes long here: few run a file alone.
  const jobs = planBatches(run.files, [])
    .map((batch) => testFiles(batch, run.flags));
  const { tally } = await runAll(jobs, {
    ...run,
    root: new URL(run.root),
    jobs: 1,
    stop: createStop(run.limitMs),
    print: (text) => console.log(text),
    log: (text) => log.writeSync(encoder.encode(text)),
  });
  console.log(formatTally(tally));
}

if (import.meta.main) await main(Deno.args[0] ?? "");
