/**
 * The `cni` tool, also as `cnitool`: attaches namespaces to networks by hand,
 * and shows the node's state.
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
  // The caller is a runtime that takes this for a plugin, and expects a
  // plugin's error.
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

/** The exit code that a shell reports for a program killed by SIGPIPE. */
const PIPE_EXIT_CODE = 128 + 13;

/** Prints and exits. Exits silently if the reader is gone, as with `head`. */
function end({ stdout, exitCode }: Ended): never {
  const problem = writeStdout(stdout);
  if (problem === undefined) Deno.exit(exitCode);
  // Only the error's text is available here; EPIPE is 32 on all architectures.
  if (problem.endsWith("(os error 32)")) Deno.exit(PIPE_EXIT_CODE);
  writeStderr(`Cannot write to stdout: ${problem}\n`);
  Deno.exit(1);
}

/** Loads the program for the name that the tool was invoked as. */
async function loadProgram(): Promise<Parameters<typeof runTool>[0]> {
  return calledAs() === "cnitool"
    ? (await import("./cnitool.ts")).cnitool
    : (await import("./commands.ts")).cni;
}

main();
