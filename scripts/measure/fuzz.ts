/**
 * Runs every parser of bytes or text from outside with random inputs, and compares
 * the launcher with deno: `deno task fuzz`.
 *
 * An input that fails is made as small as possible and printed with its seed.
 * Add it to `tests/fuzz/parsers/corpus.json`, which is run first.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import {
  fuzz,
  type FuzzOptions,
  listParsers,
} from "../../tests/fuzz/parsers/run.ts";
import { compareCalls, makeSender } from "../../tests/fuzz/launcher_calls.ts";
import { hasCommand } from "../../testing/capabilities.ts";
import { answerHelp, readOptions } from "../command_line.ts";
import { COMPILER } from "../launcher/objects.ts";
import { fuzzLauncher, SanitizedProgram } from "../launcher/sanitized.ts";
import { formatTally } from "../test/outcome.ts";

const RUNS = 100_000;

const HELP = `Run every parser of bytes or text from outside with random inputs.

Usage: deno task fuzz [--runs N] [--seed N] [--filter TEXT]

  --runs N       inputs for each parser (default ${RUNS})
  --seed N       start of the random numbers (default the time)
  --filter TEXT  only parsers with this text in their names`;

/** The command line. */
interface Options {
  readonly runs: number;
  readonly seed: number;
  readonly filter: string;
}

/** @throws {Error} If an argument is unknown or not a number */
function parseOptions(): Options {
  const { runs, seed, filter = "" } = readOptions({
    runs: { type: "string" },
    seed: { type: "string" },
    filter: { type: "string" },
  });
  const number = (text: string | undefined, otherwise: number): number => {
    if (text === undefined || /^\d{1,9}$/.test(text)) {
      return Number(text ?? otherwise);
    }
    throw new Error(`Cannot use "${text}": expected a number; see --help`);
  };
  return {
    runs: Math.max(1, number(runs, RUNS)),
    seed: number(seed, Date.now() % 1_000_000_000),
    filter,
  };
}

/** Something to run with random inputs. */
interface Subject {
  readonly name: string;
  readonly run: (options: FuzzOptions) => Promise<unknown>;
  /** A command without which it is skipped. */
  readonly needs?: string;
}

/** @param directory For files, in memory at best */
function listSubjects(directory: string): Subject[] {
  const parsers = listParsers(directory).map((parser): Subject => ({
    name: parser.name,
    run: (options) => fuzz(parser, options),
  }));
  return [...parsers, ...launcher];
}

/** What is compared and run of `launcher/call.c`. */
const launcher: readonly Subject[] = [
  {
    name: "launcher, as machine code",
    run: async (options) => {
      await using sender = makeSender(Deno.build.arch);
      return await compareCalls(sender, options);
    },
  },
  {
    name: "launcher, with sanitizers",
    needs: COMPILER,
    run: async (options) => {
      await using sender = await SanitizedProgram.compile("sender");
      return await compareCalls(sender, options);
    },
  },
  {
    name: "launcher, under libFuzzer",
    needs: COMPILER,
    run: fuzzLauncher,
  },
];

/** Runs the parsers; returns the exit status. */
async function main({ runs, seed, filter }: Options): Promise<number> {
  const directory = await Deno.makeTempDir({ prefix: "cni-fuzz-" });
  const tally = { passed: 0, failed: 0, skipped: 0 };
  console.log(`${runs} inputs for each parser, seed ${seed}`);
  try {
    for (const { name, run, needs } of listSubjects(directory)) {
      if (!name.includes(filter)) continue;
      if (needs !== undefined && !hasCommand(needs)) {
        console.log(`skipped ${name}: needs ${needs}`);
        tally.skipped++;
        continue;
      }
      const startMs = performance.now();
      try {
        await run({ runs, seed });
        const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
        console.log(`ok      ${name} (${seconds} s)`);
        tally.passed++;
      } catch (error) {
        console.log(`FAILED  ${name}\n${describeError(error)}\n`);
        tally.failed++;
      }
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
  console.log(formatTally(tally));
  return tally.failed === 0 && tally.passed > 0 ? 0 : 1;
}

if (import.meta.main) {
  answerHelp(HELP);
  try {
    Deno.exitCode = await main(parseOptions());
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
