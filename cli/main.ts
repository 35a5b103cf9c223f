/**
 * The `cni` tool, also as `cnitool`: attaches namespaces to networks by hand,
 * and shows the node's state.
 *
 * @module
 */

import { formatFailure } from "../base/error.ts";
import { printAndExit } from "../cni/call/answer.ts";
import { calledAs, readVariable } from "../base/process/stdio.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { unknownName } from "../plugins/registry.ts";
import { runProgram } from "../base/command_line/run.ts";

/** Runs the program for the name that the tool was invoked as. */
async function main(): Promise<void> {
  // The caller is a runtime that takes this for a plugin, and expects a
  // plugin's error.
  if (Deno.args.length === 0 && readVariable("CNI_COMMAND")) {
    printAndExit(formatFailure(unknownName(calledAs()), CURRENT_VERSION));
  }
  await runProgram(
    calledAs() === "cnitool"
      ? (await import("./cnitool.ts")).cnitool
      : (await import("./commands.ts")).cni,
  );
}

main();
