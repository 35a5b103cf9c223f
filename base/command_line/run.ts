/**
 * Runs a program, from its arguments to its output.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";
import { deadline, JoinedSignal } from "../deadline.ts";
import { PLUGINS_VERSION } from "../process/build_identity.ts";
import { readEnvironment, writeStderr, writeStdout } from "../process/stdio.ts";
import {
  type AnyFlagValues,
  type CommandCall,
  type Output,
  type Program,
  readTimeLimit,
} from "./command.ts";
import {
  ExitError,
  formatFailureText,
  hintAtRoot,
  toFailureDocument,
} from "./failure.ts";
import { formatCommandHelp, formatProgramHelp, withTexts } from "./help.ts";
import {
  endAfter,
  Interruption,
  listenToSignals,
  whileSignalsKill,
} from "./interrupt.ts";
import { type CommandLine, parseCommandLine } from "./parse.ts";
import { findColumns, Progress } from "./progress.ts";
import {
  chooseStyle,
  measureTerminal,
  showControls,
  type Style,
  wantsColor,
} from "./style.ts";
import { UsageError } from "./usage_error.ts";
import { onWrongNetns } from "../../ffi/own_netns.ts";

/** Runs this process as a program. */
export async function runProgram(program: Program): Promise<never> {
  // If the event loop has no work left during a wait, the process must not exit with
  // 0.
  Deno.exitCode = 1;
  const env = readEnvironment();
  const columns = findColumns(env);
  const progress = columns === undefined
    ? undefined
    : new Progress(writeStderr, columns);
  const terminal: Terminal = {
    env,
    isTerminal: Deno.stdout.isTerminal(),
    width: measureTerminal(),
    onStderr: (text) => {
      progress?.clear();
      writeStderr(text);
    },
    onProgress: progress && ((text): void => progress.show(text)),
    interrupt: listenToSignals(),
  };
  onWrongNetns((error) => {
    if (wantsJson(readArguments(program, Deno.args))) {
      writeStdout(formatDocument(toFailureDocument(error)));
    } else terminal.onStderr(`${explain(error)}\n`);
    return 1;
  });
  const { stdout, exitCode } = await runTool(program, Deno.args, terminal);
  progress?.clear();
  const problem = whileSignalsKill(() => writeStdout(stdout));
  if (problem === undefined) Deno.exit(exitCode);
  // Only the error's text is available here; EPIPE is 32 on all architectures. If the
  // reader has exited, as with `head`, the shell expects SIGPIPE's code.
  if (problem.endsWith("(os error 32)")) Deno.exit(128 + 13);
  writeStderr(`Cannot write to stdout: ${problem}\n`);
  Deno.exit(1);
}

/** The terminal and the environment of a program. */
export interface Terminal {
  readonly env: Environment;
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean;
  /** Width of the terminal in characters; absent if stdout is not a terminal. */
  readonly width?: number | undefined;
  /** Receives text for people as it is written. */
  readonly onStderr: (text: string) => void;
  /** Shows progress on a terminal; undefined without one. */
  readonly onProgress?: ((text: string) => void) | undefined;
  /** Aborted by an {@linkcode Interruption} when the user interrupts the tool. */
  readonly interrupt: AbortSignal;
}

/** The outcome of a run. */
export interface RunResult {
  readonly stdout: string;
  readonly exitCode: number;
}

/** Runs a program. Never throws: a failure becomes text on stderr, or a document. */
export async function runTool(
  program: Program,
  given: readonly string[],
  terminal: Terminal,
): Promise<RunResult> {
  const argv = readArguments(program, given);
  const isJson = wantsJson(argv);
  const shown = new Set<unknown>();
  const showFailure = (error: unknown): void => {
    if (!isJson && !shown.has(error)) {
      terminal.onStderr(`${explain(error)}\n`);
    }
    shown.add(error);
  };
  try {
    const line = parseCommandLine(program, argv);
    const output = await runLine(program, line, terminal, showFailure);
    return print(output, line.flags, terminal);
  } catch (error) {
    const exitCode = chooseExitCode(error, terminal);
    if (isJson) {
      return { stdout: formatDocument(toFailureDocument(error)), exitCode };
    }
    showFailure(error);
    return { stdout: "", exitCode };
  }
}

function readArguments(
  { hasGoFlags }: Program,
  given: readonly string[],
): readonly string[] {
  return hasGoFlags
    ? given.map((arg) => arg.replace(/^-(?=[a-z]{2})/, "--"))
    : given;
}

/** Reports whether arguments request JSON, even if the command line is invalid. */
function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return argv.slice(0, end < 0 ? argv.length : end).includes("--json");
}

function explain(error: unknown): string {
  // A plugin's text must not contain terminal control codes.
  return showLines(formatFailureText(error)) + hintAtRoot(error);
}

/** Makes the control characters of each line visible. */
function showLines(text: string): string {
  return text.split("\n").map(showControls).join("\n");
}

/** After an interruption, exits as if killed by the signal. */
function chooseExitCode(error: unknown, { interrupt }: Terminal): number {
  const { aborted, reason } = interrupt;
  if (aborted && reason instanceof Interruption) return reason.exitCode;
  return error instanceof ExitError ? error.exitCode : 1;
}

function print(
  output: Output,
  flags: AnyFlagValues,
  terminal: Terminal,
): RunResult {
  const { json, text, isBare = false, note, exitCode = 0 } = output;
  if (flags["json"]) return { stdout: formatDocument(json), exitCode };
  const style = styleOf(terminal);
  if (note !== undefined) {
    // A note can quote files, plugins or pods; a function escapes its values itself.
    const shown = typeof note === "string" ? showLines(note) : note(style);
    terminal.onStderr(`${shown}\n`);
  }
  const plain = typeof text === "string" ? text : text(style);
  const isOpen = plain === "" || isBare && !terminal.isTerminal;
  const newline = isOpen ? "" : "\n";
  return { stdout: plain + newline, exitCode };
}

function formatDocument(document: unknown): string {
  return JSON.stringify(document, null, 4) + "\n";
}

function styleOf({ env, isTerminal, width }: Terminal): Style {
  return chooseStyle(wantsColor(env, isTerminal), width);
}

async function runLine(
  program: Program,
  { words, row, args, flags }: CommandLine,
  terminal: Terminal,
  showFailure: CommandCall["showFailure"],
): Promise<Output> {
  if (row === undefined) return runBare(program, { words, flags }, terminal);
  if (flags["help"]) {
    const whole = await withTexts(program, row);
    const text = formatCommandHelp(program.name, whole, styleOf(terminal));
    return { json: { help: text }, text };
  }
  const { env, onStderr, onProgress, interrupt } = terminal;
  const command = `${program.name} ${row.name}`;
  const timeoutMs = row.timeout === undefined
    ? 0
    : readTimeLimit({ command, flags }, "timeout");
  const limit = timeoutMs === 0 ? undefined : deadline(timeoutMs);
  using end = new JoinedSignal(limit, interrupt);
  const call: CommandCall = {
    program,
    command,
    args,
    flags,
    env,
    onStderr,
    onProgress: flags["json"] ? undefined : onProgress,
    showFailure,
    timeoutMs,
    interrupt,
    signal: end.signal,
  };
  const run = await row.load();
  if (!row.isService) {
    interrupt.addEventListener("abort", () => {
      const { reason } = interrupt;
      // The command might end with the same error.
      if (flags["json"]) onStderr(`${formatFailureText(reason)}\n`);
      else showFailure(reason);
    });
  }
  const { graceMs } = row;
  return graceMs === undefined
    ? await run(call)
    : await Promise.race([run(call), endAfter(interrupt, graceMs)]);
}

/** Runs the program without a command. */
function runBare(
  program: Program,
  { words, flags }: Pick<CommandLine, "words" | "flags">,
  terminal: Terminal,
): Output {
  if (flags["version"]) return describeVersion(program);
  const [group] = words;
  const help = formatProgramHelp(program, styleOf(terminal), group);
  if (flags["help"] || program.helpsWithoutCommand) {
    return { json: { help }, text: help };
  }
  if (!flags["json"]) terminal.onStderr(`${help}\n\n`);
  throw new UsageError(
    `Cannot run "${[program.name, ...words].join(" ")}": a command is missing`,
  );
}

/** Returns the version of the tool. */
export function describeVersion({ name }: Program): Output {
  const version = PLUGINS_VERSION;
  return { json: { name, version }, text: `${name} ${version}` };
}
