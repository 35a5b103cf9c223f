/**
 * What multus logs: one line for an operation, and what went wrong in it.
 *
 * A line has the time, the level in brackets, and `key=value` pairs. It goes to
 * stderr, of which most runtimes show nothing, and to a file if there is one in
 * the configuration. Configurations and credentials are in none.
 *
 * @module
 */

import type { CmdArgs, Command } from "../../../cni/args.ts";
import { describeError, toCniError } from "../../../cni/error.ts";
import {
  createLog,
  formatFields,
  type Log,
  type LogFields,
} from "../../../cni/log.ts";
import type { MultusConfig } from "../config.ts";
import type { K8sArgs } from "../pod/k8s_args.ts";
import { compressFiles, LogFile } from "./log_file.ts";

/** The levels, from most to least; nothing is logged at `panic`. */
export const LOG_LEVELS = ["debug", "verbose", "error", "panic"] as const;

/** One of {@linkcode LOG_LEVELS}. */
export type LogLevel = typeof LOG_LEVELS[number];

/** Finds the level of a name in any case; undefined if it is none. */
export function findLogLevel(name: string): LogLevel | undefined {
  const folded = name.toLowerCase();
  return LOG_LEVELS.find((level) => level === folded);
}

/** What is used in place of a level that is none. */
const DEFAULT_LEVEL: LogLevel = "error";

/** The keys of the configuration that are about logging. */
export type LogConfig = Pick<
  MultusConfig,
  "logFile" | "logLevel" | "logToStderr" | "logOptions"
>;

/** How long one network took. */
export interface NetworkTiming {
  /** What errors call the network. */
  readonly name: string;
  /** In milliseconds. */
  readonly ms: number;
}

/** Whose an operation is. */
export interface OperationSubject {
  readonly command: Command;
  readonly args: Pick<CmdArgs, "containerId" | "netns" | "ifName">;
  /** The pod; absent for commands that are about none. */
  readonly k8s?: K8sArgs | undefined;
}

/** What became of an operation. */
export interface OperationOutcome {
  /** How long it took in milliseconds. */
  readonly ms: number;
  /** Networks whose plugins were run, in that order. */
  readonly networks: readonly NetworkTiming[];
  /** What it failed with. */
  readonly error?: unknown;
}

/**
 * The log of one operation. Nothing that it does fails an operation: of a log
 * file that cannot be written it tells on stderr, once.
 */
export class OperationLog implements Log {
  readonly #startedAt = performance.now();
  readonly #networks: NetworkTiming[] = [];
  readonly #level: LogLevel;
  readonly #onStderr: (text: string) => void;
  readonly #toStderr: boolean;
  readonly #path: string | undefined;
  #file: LogFile | undefined;
  #isPodWaiting = false;

  /**
   * Opens the log that a configuration asks for, and starts the clock. A level
   * that is none becomes `error`, with a word about it on stderr.
   *
   * @param onStderr Takes one line with its end
   */
  constructor(
    { logFile, logLevel, logToStderr, logOptions }: LogConfig,
    onStderr: (text: string) => void,
  ) {
    this.#onStderr = onStderr;
    this.#toStderr = logToStderr;
    this.#path = logFile;
    this.#file = logFile ? new LogFile(logFile, logOptions) : undefined;
    this.#level = this.#readLevel(logLevel);
  }

  /** Tells of something that kept the operation from its end. */
  error(message: string, fields: LogFields = {}): void {
    this.#log("error", message, fields);
  }

  /** Tells of something wrong that the operation got over, at level `error`. */
  warn(message: string, fields: LogFields = {}): void {
    this.#log("error", `warning: ${message}`, fields);
  }

  /** As {@linkcode verbose}, for those who know a log by its usual levels. */
  info(message: string, fields: LogFields = {}): void {
    this.#log("verbose", message, fields);
  }

  /** Tells what was done. */
  verbose(message: string, fields: LogFields = {}): void {
    this.#log("verbose", message, fields);
  }

  /** Tells what only those want to know who look for a fault. */
  debug(message: string, fields: LogFields = {}): void {
    this.#log("debug", message, fields);
  }

  /** Runs the plugins of a network, and remembers how long they took. */
  async time<T>(name: string, run: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await run();
    } finally {
      this.#networks.push({ name, ms: performance.now() - startedAt });
    }
  }

  /**
   * Writes the line of the operation: at `verbose` if it succeeded.
   *
   * @param error What it failed with; undefined if it did not
   */
  report(subject: OperationSubject, error?: unknown): void {
    this.#isPodWaiting = ["ADD", "CHECK"].includes(subject.command);
    const ms = performance.now() - this.#startedAt;
    const outcome = { ms, networks: this.#networks, error };
    const fields = operationRecord(subject, outcome);
    if (error === undefined) this.verbose("done", fields);
    else this.error("failed", fields);
  }

  /**
   * Compresses log files that were set aside, unless a pod waits for the
   * operation that was reported: it takes a second for 100 megabytes.
   */
  async finish(): Promise<void> {
    if (this.#file === undefined || this.#isPodWaiting) return;
    try {
      await compressFiles(this.#file.listUncompressed());
    } catch (error) {
      this.#complain("Cannot compress log files", error);
    }
  }

  #readLevel(name: string): LogLevel {
    const level = findLogLevel(name);
    if (level !== undefined) return level;
    this.#stderr().warn("Cannot log at an unknown level", {
      logLevel: name,
      used: DEFAULT_LEVEL,
    });
    return DEFAULT_LEVEL;
  }

  #log(level: LogLevel, msg: string, fields: LogFields): void {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(this.#level)) return;
    const text = formatFields({ msg, ...fields });
    const line = `${new Date().toISOString()} [${level}] ${text}\n`;
    if (this.#toStderr) this.#onStderr(line);
    try {
      this.#file?.append(line);
    } catch (error) {
      // To try again would fail again, and be told of again.
      this.#file = undefined;
      this.#complain("Cannot write the log file", error);
    }
  }

  #complain(message: string, error: unknown): void {
    const fields = { file: this.#path, error: describeError(error) };
    this.#stderr().warn(message, fields);
  }

  #stderr(): Log {
    return createLog({ component: "multus" }, this.#onStderr);
  }
}

/**
 * Builds what the line of an operation says: whose it was, how long it took and
 * each of its networks, as in `networks="kube-ovn=35 default/ipvlan=12"` in
 * milliseconds. Of CNI_ARGS it has the pod's names only.
 */
export function operationRecord(
  { command, args, k8s }: OperationSubject,
  { ms, networks, error }: OperationOutcome,
): LogFields {
  const { podNamespace = "", podName = "", podUid = "" } = k8s ?? {};
  const timings = networks
    .map(({ name, ms }) => `${name}=${Math.round(ms)}`);
  return {
    command,
    containerId: args.containerId,
    ifName: args.ifName,
    netns: args.netns,
    pod: podName && `${podNamespace}/${podName}`,
    podUid,
    ms: Math.round(ms),
    networks: timings.join(" "),
    ...error !== undefined && {
      code: toCniError(error).code,
      error: describeError(error),
    },
  };
}
