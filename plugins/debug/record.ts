/**
 * Writing down what the plugin was given.
 *
 * @module
 */

import type { Command } from "../../cni/args.ts";
import { describeError } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { DebugConfig } from "./config.ts";

/** What a record begins with. */
const TITLES: Readonly<Record<Command, string>> = {
  ADD: "CmdAdd",
  DEL: "CmdDel",
  CHECK: "CmdCheck",
  GC: "CmdGC",
  STATUS: "CmdStatus",
};

/**
 * Formats what the plugin was given.
 *
 * Source: containernetworking/plugins plugins/debug/main.go `outputCmdArgs`.
 */
export function formatRecord(
  { command, args, stdin }: Pick<Call, "command" | "args" | "stdin">,
): string {
  return `${TITLES[command]}
ContainerID: ${args.containerId}
Netns: ${args.netns}
IfName: ${args.ifName}
Args: ${args.args}
Path: ${args.path}
StdinData: ${new TextDecoder().decode(stdin)}
----------------------
`;
}

/**
 * Adds the call to the file that the configuration names, if it names one. What
 * is in the way is logged: nothing shall fail because somebody looks at it.
 */
export function recordCall(call: Call<DebugConfig>): void {
  const { cniOutput } = call.config;
  if (!cniOutput) return;
  try {
    appendText(cniOutput, formatRecord(call));
  } catch (error) {
    call.log.warn(`Cannot write to "${cniOutput}"`, {
      error: describeError(error),
    });
  }
}

/** Appends all at once, so that the records of several processes do not mix. */
function appendText(path: string, text: string): void {
  // Deno.writeTextFileSync() would also change the mode of a file that is there.
  using file = Deno.openSync(path, { append: true, create: true, mode: 0o644 });
  let bytes = new TextEncoder().encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
}
