/**
 * Calls of executables in a node's namespace, and their measurements.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import {
  type Ended,
  PreparedProgram,
  type Program,
  runForPeak,
  type Timed,
} from "./process.ts";
import type { Measures } from "./summary.ts";

/** Percent, seconds, microseconds a call, calls, errors if any, name. */
const LINE = /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+(\d+))?\s+(\w+)$/;

/**
 * Counts the system calls, and the programs that were begun: calls of execve
 * that did not fail. Searching PATH for a program fails in every directory before.
 *
 * @throws {Error} If the text has no line of a system call
 */
export function parseStraceSummary(text: string): Measures {
  let execs = 0, syscalls = 0;
  for (const line of text.split("\n")) {
    const [, calls, errors = "0", name = "total"] = LINE.exec(line) ?? [];
    if (calls === undefined || name === "total") continue;
    syscalls += Number(calls);
    if (/^execve(at)?$/.test(name)) execs += Number(calls) - Number(errors);
  }
  if (syscalls === 0) {
    throw new Error(`Cannot read strace's summary: ${JSON.stringify(text)}`);
  }
  return { execs, syscalls };
}

/**
 * Finds strace.
 *
 * @param path Directories, with colons between
 * @returns `undefined` if it is missing or may not trace here
 */
export function findStrace(path: string): string | undefined {
  return path.split(":").map((directory) => `${directory}/strace`).find(
    canTrace,
  );
}

function canTrace(strace: string): boolean {
  try {
    const args = ["-f", "-c", "-o", "/dev/null", "true"];
    return new Deno.Command(strace, { args, stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
}

/** One call of an executable. */
export interface Call {
  /** The executable. */
  readonly path: string;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its environment, to which PATH is added. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** The outcome of a call. */
export interface Outcome {
  readonly stdout: string;
  readonly measures: Measures;
}

/** A running call. */
export interface RunningCall {
  readonly pid: number;
  /**
   * Ends it on our side.
   *
   * @param ended What {@linkcode waitFor} returned
   * @throws {CallFailure} If it ended with another status than 0
   */
  finish(ended: Ended): Outcome;
}

/** A call that failed. */
export class CallFailure extends Error {
  override readonly name = "CallFailure";

  /** Builds a failure from the executable's output, in one line. */
  constructor({ path, args, env }: Call, code: number, output: string) {
    const command = env["CNI_COMMAND"] ?? args[0] ?? "";
    const said = output.trim().replace(/\s+/g, " ").slice(0, 500);
    super(`Cannot run "${path}" ${command}: exit status ${code}: ${said}`);
  }
}

/** Where executables look for others: the Go plugins run iptables. */
export const PATH =
  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Runs calls, one way for each thing that is measured. */
export class CallRunner {
  readonly #directory: string;
  #count = 0;

  /** @param directory An empty one for the calls' files, in memory at best */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Runs a call for its time, wall and processor. */
  runTimed(call: Call, host: NetNs): Outcome {
    const program = this.#provide(call);
    using prepared = new PreparedProgram(program);
    const timed = inNetns(host, () => prepared.run());
    return collect(call, program, timed);
  }

  /** Runs a call for its peak of memory. */
  runForPeak(call: Call, host: NetNs): Outcome {
    const program = this.#provide(call);
    const ended = inNetns(host, () => runForPeak(program));
    const { stdout } = collect(call, program, ended);
    return { stdout, measures: { peakKib: ended.peakKib } };
  }

  /**
   * Runs a call for its system calls.
   *
   * @param strace Path of strace
   */
  runTraced(call: Call, host: NetNs, strace: string): Outcome {
    const program = this.#provide(call);
    const summary = `${this.#directory}/summary`;
    const traced = ["-f", "-c", "-o", summary, program.path, ...program.args];
    using prepared = new PreparedProgram({
      ...program,
      path: strace,
      args: traced,
    });
    const ended = inNetns(host, () => prepared.run());
    const { stdout } = collect(call, program, ended);
    const measures = parseStraceSummary(Deno.readTextFileSync(summary));
    return { stdout, measures };
  }

  /** Starts a call; others may run at the same time. */
  start(call: Call, host: NetNs): RunningCall {
    const program = this.#provide(call);
    using prepared = new PreparedProgram(program);
    const pid = inNetns(host, () => prepared.start());
    return { pid, finish: (ended) => collect(call, program, ended) };
  }

  /** Writes what a call reads. */
  #provide({ path, args, env, stdin }: Call): Program {
    const stem = `${this.#directory}/${++this.#count}`;
    Deno.writeTextFileSync(stem, stdin);
    return {
      path,
      args,
      env: { PATH, ...env },
      stdin: stem,
      stdout: `${stem}.stdout`,
      stderr: `${stem}.stderr`,
    };
  }
}

/** Reads what a call has written, and removes its files. */
function collect(
  call: Call,
  { stdin, stdout, stderr }: Program,
  ended: Ended & Partial<Timed>,
): Outcome {
  const [printed = "", complained = ""] = [stdout, stderr].map((file) =>
    Deno.readTextFileSync(file)
  );
  for (const file of [stdin, stdout, stderr]) Deno.removeSync(file);
  const { code, cpuMs, wallMs } = ended;
  if (code !== 0) throw new CallFailure(call, code, printed + complained);
  return {
    stdout: printed,
    measures: wallMs === undefined ? { cpuMs } : { wallMs, cpuMs },
  };
}
