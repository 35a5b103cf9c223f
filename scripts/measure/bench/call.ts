/**
 * Calls of executables in a node's namespace, and what they take.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { type Ended, PreparedProgram, type Program } from "./process.ts";

/** One call of an executable. */
export interface Call {
  /** The executable. */
  readonly path: string;
  readonly args: readonly string[];
  /** Its environment, to which PATH is added. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** What something took. */
export interface Times {
  /** From just before the process is made until it has been waited for. */
  readonly wallMs: number;
  /** Processor time, user and system, of the process and its children. */
  readonly cpuMs: number;
}

/** A running call. */
export interface RunningCall {
  readonly pid: number;
  /**
   * Returns what it printed, once it has ended.
   *
   * @throws {CallFailure} If its exit status is not 0
   */
  finish(ended: Ended): string;
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

/** Runs calls. */
export class CallRunner {
  readonly #directory: string;
  #count = 0;

  /** @param directory An empty directory for the calls' files, in memory at best */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Runs a call to its end.
   *
   * @throws {CallFailure} If its exit status is not 0
   */
  run(call: Call, host: NetNs): { readonly stdout: string } & Times {
    const program = this.#provide(call);
    using prepared = new PreparedProgram(program);
    const ended = inNetns(host, () => prepared.run());
    const { wallMs, cpuMs } = ended;
    return { stdout: collect(call, program, ended), wallMs, cpuMs };
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
  { code }: Ended,
): string {
  const [printed = "", complained = ""] = [stdout, stderr].map((file) =>
    Deno.readTextFileSync(file)
  );
  for (const file of [stdin, stdout, stderr]) Deno.removeSync(file);
  if (code !== 0) throw new CallFailure(call, code, printed + complained);
  return printed;
}
