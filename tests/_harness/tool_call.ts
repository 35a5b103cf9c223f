/**
 * Calls of the `cni` tool and of its commands, in this process.
 *
 * @module
 */

import { cni } from "../../cli/commands.ts";
import type { CniCall } from "../../cli/flags.ts";
import type { FlagTable, FlagValues } from "../../base/command_line/command.ts";
import { parseCommandLine } from "../../base/command_line/parse.ts";
import {
  type RunResult,
  runTool,
  type Terminal,
} from "../../base/command_line/run.ts";

/** Runs `cni`, not on a terminal and with an empty environment. */
export function runCni(
  ...argv: readonly string[]
): Promise<RunResult & { readonly stderr: string }> {
  return runCniOn({}, ...argv);
}

/** Runs `cni` with other surroundings, such as the width of a terminal. */
export async function runCniOn(
  terminal: Partial<Terminal>,
  ...argv: readonly string[]
): Promise<RunResult & { readonly stderr: string }> {
  let stderr = "";
  const ended = await runTool(cni, argv, {
    env: {},
    isTerminal: false,
    onStderr: (text) => stderr += text,
    interrupt: new AbortController().signal,
    ...terminal,
  });
  return { ...ended, stderr };
}

/** Builds a call of a command, without flags unless others are given. */
export function callWith(parts: Partial<CniCall>): CniCall {
  const { signal = new AbortController().signal } = parts;
  return {
    program: cni,
    command: "cni test",
    args: [],
    flags: {},
    env: {},
    onStderr(): void {},
    showFailure(): void {},
    timeoutMs: 0,
    interrupt: signal,
    signal,
    ...parts,
  };
}

/**
 * Parses flags of a command.
 *
 * @param command The program and the command, such as `multus install`
 */
export function parseFlags<const T extends FlagTable>(
  command: string,
  flags: T,
  argv: readonly string[],
): FlagValues<T> {
  const [name = "", word = ""] = command.split(" ");
  const load = (): Promise<never> => Promise.reject(new Error(command));
  const rows = [{ name: word, summary: "", flags, load }];
  const line = parseCommandLine({ name, about: "", rows }, [word, ...argv]);
  // The parser has filled in the flags of the table.
  return line.flags as FlagValues<T>;
}
