/**
 * One run of the tool, from its arguments to its output.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";
import { deadline } from "../cni/deadline.ts";
import { PLUGINS_VERSION } from "../cni/skel.ts";
import {
  type CommandCall,
  type CommandRow,
  findFlag,
  type FlagValues,
  type Output,
  type Program,
} from "./command.ts";
import { parseDuration } from "./duration.ts";
import {
  ExecError,
  formatFailureText,
  isDenied,
  toFailureDocument,
} from "./failure.ts";
import { formatCommandHelp, formatProgramHelp } from "./help.ts";
import { Interruption } from "./interrupt.ts";
import { type CommandLine, parseCommandLine } from "./parse.ts";
import { chooseStyle, showControls, type Style, wantsColor } from "./style.ts";
import { UsageError } from "./usage_error.ts";

/** The surroundings of the tool. */
export interface World {
  readonly env: Environment;
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean;
  /** Receives text for people as it is written. */
  readonly onStderr: (text: string) => void;
  /** Aborted by an {@linkcode Interruption} when the user interrupts the tool. */
  readonly interrupt: AbortSignal;
}

/** The outcome of a run. */
export interface Ended {
  readonly stdout: string;
  readonly exitCode: number;
}

/** Runs a program. Never throws: a failure becomes text on stderr, or a document. */
export async function runTool(
  program: Program,
  argv: readonly string[],
  world: World,
): Promise<Ended> {
  // Needed even if the command line is invalid.
  const end = argv.indexOf("--");
  const wantsJson = argv.slice(0, end < 0 ? argv.length : end).includes(
    "--json",
  );
  const shown = new Set<unknown>();
  const showFailure = (error: unknown): void => {
    if (!wantsJson && !shown.has(error)) {
      world.onStderr(`${explain(program, error)}\n`);
    }
    shown.add(error);
  };
  try {
    const line = parseCommandLine(program, argv);
    const output = await runLine(program, line, world, showFailure);
    return print(output, line.flags, world);
  } catch (error) {
    const exitCode = chooseExitCode(error, world);
    if (wantsJson) {
      return { stdout: formatJson(toFailureDocument(error)), exitCode };
    }
    showFailure(error);
    return { stdout: "", exitCode };
  }
}

function explain({ explainUsage }: Program, error: unknown): string {
  if (error instanceof UsageError && explainUsage) return explainUsage(error);
  const hint = isDenied(error) && Deno.uid() !== 0 ? "; run it as root" : "";
  // A plugin's text must not contain terminal control codes.
  return formatFailureText(error).split("\n").map(showControls).join("\n") +
    hint;
}

/** After an interruption, exits as if killed by the signal. */
function chooseExitCode(error: unknown, { interrupt }: World): number {
  const { aborted, reason } = interrupt;
  if (aborted && reason instanceof Interruption) return reason.exitCode;
  return error instanceof ExecError ? error.exitCode : 1;
}

function print(output: Output, flags: FlagValues, world: World): Ended {
  const { json, text, isBare = false, note, exitCode = 0 } = output;
  if (flags.has("json")) return { stdout: formatJson(json), exitCode };
  if (note !== undefined) world.onStderr(`${note}\n`);
  const plain = typeof text === "string" ? text : text(styleOf(world));
  const isOpen = plain === "" || isBare && !world.isTerminal;
  const newline = isOpen ? "" : "\n";
  return { stdout: plain + newline, exitCode };
}

function formatJson(document: unknown): string {
  return JSON.stringify(document, null, 4) + "\n";
}

function styleOf({ env, isTerminal }: World): Style {
  return chooseStyle(wantsColor(env, isTerminal));
}

async function runLine(
  program: Program,
  { words, row, args, flags }: CommandLine,
  world: World,
  showFailure: CommandCall["showFailure"],
): Promise<Output> {
  if (row === undefined) return runProgram(program, { words, flags }, world);
  if (flags.has("help")) {
    const text = formatCommandHelp(program.name, row, styleOf(world));
    return { json: { help: text }, text };
  }
  const { env, onStderr, interrupt } = world;
  const timeoutMs = readTimeout(row, flags);
  const call: CommandCall = {
    program,
    args,
    flags,
    env,
    onStderr,
    showFailure,
    timeoutMs,
    interrupt,
    signal: timeoutMs === 0 ? interrupt : deadline(timeoutMs, interrupt),
  };
  return await (await row.load())(call);
}

/** Runs the program without a command. */
function runProgram(
  program: Program,
  { words, flags }: Pick<CommandLine, "words" | "flags">,
  world: World,
): Output {
  if (flags.has("version")) return describeVersion(program);
  const [group] = words;
  const help = formatProgramHelp(program, styleOf(world), group);
  if (flags.has("help")) return { json: { help }, text: help };
  if (!flags.has("json") && !program.explainUsage) {
    world.onStderr(`${help}\n\n`);
  }
  throw new UsageError(
    `Cannot run "${[program.name, ...words].join(" ")}": a command is missing`,
    { isIncomplete: true },
  );
}

/** Returns the version of the tool. */
export function describeVersion({ name }: Program): Output {
  const version = PLUGINS_VERSION;
  return { json: { name, version }, text: `${name} ${version}` };
}

/** @throws {RangeError} If `--timeout` is malformed */
function readTimeout(row: CommandRow, flags: FlagValues): number {
  return parseDuration(findFlag({ flags }, "timeout") ?? row.timeout ?? "0");
}
