/**
 * A busy node for some minutes: `deno task soak`. Pods come and go, 16 at a
 * time, on networks of several kinds, while callers and the node daemon are
 * killed. Prints figures every 15 seconds, and fails if anything is left.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { describeError } from "../../base/error.ts";
import { ROOT } from "../compile/project.ts";
import { answerHelp } from "../help.ts";

const HELP = `Attach and detach pods while callers and the daemon are killed.

Usage: deno task soak [--minutes N]

  --minutes N  how long, 1 to 10000 (default 10)`;

/** @throws {Error} If an argument is unknown or not a number */
function readMinutes(args: readonly string[]): string {
  const { minutes = "10" } = parseArgs([...args], {
    string: ["minutes"],
    unknown: (arg) => {
      throw new Error(`Cannot understand "${arg}"; see deno task soak --help`);
    },
  });
  if (/^[1-9]\d{0,3}$/.test(minutes)) return minutes;
  throw new Error(`Cannot run for "${minutes}" minutes`);
}

async function main(args: readonly string[]): Promise<number> {
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "test", "tests/daemon_soak_test.ts"],
    cwd: ROOT,
    env: { CNI_SOAK_MINUTES: readMinutes(args) },
  }).spawn().status;
  return code;
}

if (import.meta.main) {
  answerHelp(HELP);
  try {
    Deno.exitCode = await main(Deno.args);
  } catch (error) {
    // deno-lint-ignore no-console -- what went wrong
    console.error(describeError(error));
    Deno.exit(1);
  }
}
