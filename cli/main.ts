/**
 * The `cni` tool, and `cnitool` by its other name: attaches namespaces to
 * networks by hand, and shows what is there.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { CniError, ErrorCode, formatFailure } from "../cni/error.ts";
import { printAndExit } from "../cni/skel.ts";
import { writeStderr } from "../cni/stdio.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { pluginNames, programNames } from "../plugins/registry.ts";
import { listenToSignals } from "./interrupt.ts";
import { runTool, type World } from "./run.ts";

async function main(): Promise<void> {
  const env = Deno.env.toObject();
  // A runtime takes it for a plugin, and wants an answer that it understands.
  if (Deno.args.length === 0 && env["CNI_COMMAND"]) refuseToBePlugin();
  const world: World = {
    env,
    isTerminal: Deno.stdout.isTerminal(),
    onStderr: (text) => writeStderr(text),
    interrupt: listenToSignals(({ message }) => writeStderr(`${message}\n`)),
  };
  printAndExit(await runTool(await loadProgram(), Deno.args, world));
}

/** Loads what the tool is by the name that it was called by. */
async function loadProgram(): Promise<Parameters<typeof runTool>[0]> {
  return calledAs() === "cnitool"
    ? (await import("./cnitool.ts")).cnitool
    : (await import("./commands.ts")).cni;
}

/** The name in argv[0]; Deno.execPath() would follow links. */
function calledAs(): string {
  const [argv0 = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  return basename(argv0);
}

function refuseToBePlugin(): never {
  const names = [...pluginNames, ...programNames];
  const error = new CniError(
    ErrorCode.InvalidEnvironment,
    `no plugin is named "${calledAs()}"`,
    { details: `call this executable as one of: ${names.join(", ")}` },
  );
  printAndExit(formatFailure(error, CURRENT_VERSION));
}

main();
