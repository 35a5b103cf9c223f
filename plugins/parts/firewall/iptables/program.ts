/**
 * Runs `iptables`, `ip6tables` and their `-restore` programs inside a
 * namespace.
 *
 * Source: iptables iptables/iptables-restore.c, iptables/iptables-save.c.
 *
 * @module
 */

import { formatAbort, JoinedSignal } from "../../../../base/deadline.ts";
import { outputUntil } from "../../../../base/process/child.ts";
import { checkChange } from "../../../../ffi/change_check.ts";
import { inNetns, type NetNs } from "../../../../ffi/netns.ts";
import type { IpFamily } from "../../../../net/ip.ts";
import { BackendMissing } from "./find.ts";
import { StartedPrograms } from "./started_programs.ts";

/** How long to wait for a different program's lock on the rules, in seconds. */
const LOCK_WAIT_SECONDS = 20;
/** Time limit of a program, including that wait, in seconds. */
export const LIMIT_SECONDS: number = LOCK_WAIT_SECONDS + 60;

/** A table of iptables. */
export type TableName = "nat" | "filter";

/** A table of a family in a namespace, and its program. */
export interface Iptables {
  readonly netns: NetNs;
  readonly family: IpFamily;
  readonly table: TableName;
  /** The program's path. */
  readonly path: string;
  /**
   * Kills a running program when the signal is aborted, but not programs of a later
   * undo.
   */
  readonly signal?: AbortSignal | undefined;
}

/** Source: iptables include/xtables.h `OTHER_PROBLEM`, which includes a missing chain. */
export const OTHER_PROBLEM = 1;

/** The outcome of a program. */
export interface ProgramResult {
  readonly success: boolean;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command such as `-S POSTROUTING`.
 *
 * @throws {BackendMissing} If the program cannot be started
 * @throws {Untried} If it does not exit in time
 */
export function runIptables(
  iptables: Iptables,
  args: readonly string[],
): Promise<ProgramResult> {
  const wait = ["-w", String(LOCK_WAIT_SECONDS)];
  return execute(iptables, "", [...wait, "-t", iptables.table, ...args]);
}

/**
 * Makes changes, all or none.
 *
 * @param changes Lines such as `-N CHAIN` and `-A CHAIN -j ACCEPT`
 * @throws {BackendMissing} If the program cannot be started
 * @throws {Untried} If it does not exit in time
 */
export function restoreIptables(
  iptables: Iptables,
  changes: readonly string[],
): Promise<ProgramResult> {
  if (changes.some((change) => !change.startsWith("-C "))) checkChange();
  const args = ["--noflush", `--wait=${LOCK_WAIT_SECONDS}`];
  const stdin = [`*${iptables.table}`, ...changes, "COMMIT", ""].join("\n");
  return execute(iptables, "-restore", args, stdin);
}

/** Source: iptables include/xtables.h `VERSION_PROBLEM`, `RESOURCE_PROBLEM`. */
const VERSION_PROBLEM = 3, RESOURCE_PROBLEM = 4;
/**
 * The first exit code with which a shell reports the signal that killed the program.
 */
const SIGNALS = 128;

/**
 * Reports whether the program cannot work on this host, however often it is run: the
 * kernel lacks its tables, its libraries are missing, or a script in its place exits
 * with a code that iptables does not use.
 */
export function isUnusable({ code }: Pick<ProgramResult, "code">): boolean {
  return code === VERSION_PROBLEM || code > RESOURCE_PROBLEM && code < SIGNALS;
}

/**
 * A run ended before its changes were tried: it did not get the lock, or was killed.
 */
export class Untried extends Error {
  override readonly name: string = "Untried";
}

/**
 * A program did not exit in time, and would not for a different caller of the run
 * either.
 */
export class Overdue extends Untried {
  override readonly name = "Overdue";
}

/** The caller of a run gave up. A different caller can run the program. */
export class GivenUp extends Untried {
  override readonly name = "GivenUp";
  /** The signal of the caller that gave up. */
  readonly signal: AbortSignal;

  constructor(message: string, signal: AbortSignal) {
    super(message);
    this.signal = signal;
  }
}

/**
 * Reports whether a run ended before its changes were tried. The nft variant returns
 * the code of a busy lock even for refusals of the kernel, such as to delete a chain
 * that is in use.
 *
 * Source: iptables iptables/xshared.c `xtables_lock_or_exit`, iptables/nft.c
 * `nft_action`.
 */
function isUntried({ code, stderr }: ProgramResult): boolean {
  return code >= SIGNALS ||
    code === RESOURCE_PROBLEM && /\block\b/.test(stderr);
}

/** Returns the error of a failed run, with the program's output. */
export function failureOf({ path }: Iptables, ended: ProgramResult): Error {
  const why = ended.stderr.trim().split("\n").join("; ");
  const message = `${path}: ${why || `it ended with code ${ended.code}`}`;
  if (isUntried(ended)) return new Untried(message);
  return isUnusable(ended) ? new BackendMissing(message) : new Error(message);
}

/**
 * Quotes a text in the form that iptables-restore reads and `iptables -S` prints.
 *
 * @throws {Error} If it has several lines, which iptables-restore cannot read
 */
export function quote(text: string): string {
  if (text.includes("\n")) {
    throw new Error(`iptables cannot read ${JSON.stringify(text)}`);
  }
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** Splits a rule into arguments like iptables-restore. */
export function splitRule(rule: string): string[] {
  return (rule.match(/"(?:\\.|[^"\\])*"|\S+/g) ?? []).map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll(/\\(.)/g, "$1") : part
  );
}

/** Joins arguments to a rule in the form that iptables-restore reads. */
export function joinRule(args: readonly string[]): string {
  return args.map((arg) => /^[^\s"'\\]+$/.test(arg) ? arg : quote(arg))
    .join(" ");
}

/** Reads the values of a listed rule's options, such as `--comment`. */
export function optionsOf(
  rule: string,
): (option: string) => string | undefined {
  const args = splitRule(rule);
  return (option) => {
    const position = args.indexOf(option);
    return position < 0 ? undefined : args[position + 1];
  };
}

/** Returns a listed rule's comment; "" for none. */
export function commentOf(rule: string): string {
  return optionsOf(rule)("--comment") ?? "";
}

/** Returns the match that adds a comment to a rule. */
export function withComment(text: string): string[] {
  return ["-m", "comment", "--comment", text];
}

/**
 * Runs a program inside a namespace. Kills the program and its child processes if it
 * does not exit within the limit, or if the signal is aborted.
 *
 * @param suffix Suffix of the program's name
 * @param limitSeconds How long to wait for its exit
 * @throws {BackendMissing} If the program cannot be started
 * @throws {Overdue} If it does not exit within the limit
 * @throws {GivenUp} If the signal is aborted
 */
export async function execute(
  { netns, path, signal }: Pick<Iptables, "netns" | "path" | "signal">,
  suffix: string,
  args: readonly string[],
  stdin = "",
  limitSeconds: number = LIMIT_SECONDS,
): Promise<ProgramResult> {
  const end = signal?.aborted ? undefined : signal;
  // A process with a single call is killed together with its child processes.
  const isLeader = signal !== undefined;
  const child = start(netns, path + suffix, args, isLeader);
  started.noteStart(child.pid);
  using _noted = { [Symbol.dispose]: () => started.noteEnd(child.pid) };
  using limit = new JoinedSignal(limitSeconds * 1000, end);
  const output = await outputUntil(child, limit.signal, {
    ...{ input: stdin, isLeader },
  });
  if (output === undefined) {
    const program = path + suffix;
    throw end?.aborted
      ? new GivenUp(`${program} was killed: ${formatAbort(end)}`, end)
      : new Overdue(`${program} did not end within ${limitSeconds} s`);
  }
  const decoder = new TextDecoder();
  return {
    success: output.success,
    code: output.code,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

const started = new StartedPrograms();

/**
 * Reports whether this process runs, or has recently run, a program with a process
 * ID.
 */
export function isOwnProgram(processId: number): boolean {
  return started.has(processId);
}

/** Starts a program inside the namespace, in a separate process group or in ours. */
function start(
  netns: NetNs,
  path: string,
  args: readonly string[],
  isLeader: boolean,
): Deno.ChildProcess {
  try {
    return inNetns(netns, () =>
      new Deno.Command(path, {
        args: [...args],
        detached: isLeader,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn());
  } catch (error) {
    if (!isUnstartable(error)) throw error;
    throw new BackendMissing(`Cannot start "${path}"`, { cause: error });
  }
}

/** Reports whether a program can never be started, however often it is retried. */
function isUnstartable(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.PermissionDenied ||
    error instanceof Error && "code" in error && error.code === "ENOEXEC";
}
