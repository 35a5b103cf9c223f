/**
 * The `cni` tool, and `cnitool` by its other name: attaches namespaces to
 * networks by hand, and shows what is there.
 *
 * @module
 */

import { calledAs } from "../cni/called_as.ts";
import { formatFailure } from "../cni/error.ts";
import { printAndExit } from "../cni/answer.ts";
import { writeStderr, writeStdout } from "../cni/stdio.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { unknownName } from "../plugins/registry.ts";
import { listenToSignals } from "./interrupt.ts";
import { type Ended, runTool, type World } from "./run.ts";

async function main(): Promise<void> {
  const env = Deno.env.toObject();
  // A runtime takes it for a plugin, and wants an answer that it understands.
  if (Deno.args.length === 0 && env["CNI_COMMAND"]) {
    printAndExit(formatFailure(unknownName(calledAs()), CURRENT_VERSION));
  }
  const world: World = {
    env,
    isTerminal: Deno.stdout.isTerminal(),
    onStderr: (text) => writeStderr(text),
    interrupt: listenToSignals(({ message }) => writeStderr(`${message}\n`)),
  };
  end(await runTool(await loadProgram(), Deno.args, world));
}

/** What a shell returns of a program that SIGPIPE ended. */
const PIPE_EXIT_CODE = 128 + 13;

/** Prints, and ends the process; without a word if nobody reads on, as `head` does not. */
function end({ stdout, exitCode }: Ended): never {
  const problem = writeStdout(stdout);
  if (problem === undefined) Deno.exit(exitCode);
  // Its text is all that is known of an error here; EPIPE is 32 everywhere.
  if (problem.endsWith("(os error 32)")) Deno.exit(PIPE_EXIT_CODE);
  writeStderr(`Cannot write to stdout: ${problem}\n`);
  Deno.exit(1);
}

/** Loads what the tool is by the name that it was called by. */
async function loadProgram(): Promise<Parameters<typeof runTool>[0]> {
  return calledAs() === "cnitool"
    ? (await import("./cnitool.ts")).cnitool
    : (await import("./commands.ts")).cni;
}

main();
