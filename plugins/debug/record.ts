/**
 * Records the input of a call.
 *
 * @module
 */

import type { Command } from "../../cni/call/args.ts";
import { describeError } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { openRegularFile } from "../../ffi/file/regular_file.ts";
import type { DebugConfig } from "./schema.ts";

/** The first line of a record. */
const TITLES: Readonly<Record<Command, string>> = {
  ADD: "CmdAdd",
  DEL: "CmdDel",
  CHECK: "CmdCheck",
  GC: "CmdGC",
  STATUS: "CmdStatus",
};

/**
 * Formats the input of a call.
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
 * Appends the call to the configured file, if any. Failures are only logged:
 * debugging must not make a call fail.
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

/**
 * Appends in a single write, so that records of several processes do not mix.
 */
function appendText(path: string, text: string): void {
  using file = openRegularFile(path, { mode: 0o644 });
  let bytes = new TextEncoder().encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
}
