/**
 * The log of multus: a line for each operation, and its errors.
 *
 * A line contains the time, the level in brackets, and `key=value` pairs. It is
 * written to stderr, which most runtimes hide, and to the configured file.
 * Configurations and credentials are never logged.
 *
 * @module
 */

import type { CmdArgs, Command } from "../../../cni/call/args.ts";
import { describeError, toCniError } from "../../../base/error.ts";
import {
  createLog,
  formatFields,
  type Log,
  type LogFields,
} from "../../../base/log/log.ts";
import { compressFiles, LogFile } from "../../../base/log/rotated_file.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import type { MultusConfig } from "../model/config.ts";

/** The levels, most verbose first; nothing is logged at `panic`. */
export const MULTUS_LOG_LEVELS = [
  "debug",
  "verbose",
  "error",
  "panic",
] as const;

/** One of {@linkcode MULTUS_LOG_LEVELS}. */
export type MultusLogLevel = typeof MULTUS_LOG_LEVELS[number];

/** Finds a level by its name, in any case; undefined if unknown. */
export function findLogLevel(name: string): MultusLogLevel | undefined {
  const folded = name.toLowerCase();
  return MULTUS_LOG_LEVELS.find((level) => level === folded);
}

/** The level instead of an unknown level. */
const DEFAULT_LEVEL: MultusLogLevel = "error";

/** The configuration's keys for logging. */
export type LogConfig = Pick<
  MultusConfig,
  "logFile" | "logLevel" | "logToStderr" | "logOptions"
>;

/** The duration of a network's plugins. */
export interface NetworkTiming {
  /** Name of the network, as in errors. */
  readonly name: string;
  /** The duration in milliseconds. */
  readonly ms: number;
}

/** The command and the container of an operation. */
export interface OperationSubject {
  readonly command: Command;
  readonly args: Pick<CmdArgs, "containerId" | "netns" | "ifName">;
  /** The pod; absent for commands without one. */
  readonly k8s?: K8sArgs | undefined;
}

/** The outcome of an operation. */
export interface OperationOutcome {
  /** Duration in milliseconds. */
  readonly ms: number;
  /** The networks in the order in which their plugins ran. */
  readonly networks: readonly NetworkTiming[];
  /** The failure. */
  readonly error?: unknown;
}

/**
 * The log of an operation. Logging never fails the operation: if the file cannot be
 * written, a line on stderr reports it.
 */
export class OperationLog implements Log {
  readonly #startedAt = performance.now();
  readonly #networks: NetworkTiming[] = [];
  readonly #level: MultusLogLevel;
  readonly #onStderr: (text: string) => void;
  readonly #toStderr: boolean;
  readonly #path: string | undefined;
  #file: LogFile | undefined;
  #isPodWaiting = false;

  /**
   * Opens the configured log, and starts the clock. An unknown level is reported
   * on stderr and replaced by `error`.
   *
   * @param onStderr Receives a line with its line feed
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

  /** Logs the failure of the operation. */
  error(message: string, fields: LogFields = {}): void {
    this.#log("error", message, fields);
  }

  /** Logs a problem that does not fail the operation, at level `error`. */
  warn(message: string, fields: LogFields = {}): void {
    this.#log("error", `warning: ${message}`, fields);
  }

  /** Same as {@linkcode verbose}, for the common log interface. */
  info(message: string, fields: LogFields = {}): void {
    this.#log("verbose", message, fields);
  }

  /** Logs an action. */
  verbose(message: string, fields: LogFields = {}): void {
    this.#log("verbose", message, fields);
  }

  /** Logs details for debugging. */
  debug(message: string, fields: LogFields = {}): void {
    this.#log("debug", message, fields);
  }

  /** Runs a network's plugins, and records their duration. */
  async time<T>(name: string, run: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await run();
    } finally {
      this.#networks.push({ name, ms: performance.now() - startedAt });
    }
  }

  /**
   * Logs the operation: at `verbose` if it succeeded, otherwise at `error`.
   *
   * @param error The failure; undefined for success
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
   * Compresses rotated log files, unless a pod waits for the reported operation,
   * because 100 MB take a second.
   */
  async finish(): Promise<void> {
    if (this.#file === undefined || this.#isPodWaiting) return;
    try {
      await compressFiles(this.#file.listUncompressed());
    } catch (error) {
      this.#complain("Cannot compress log files", error);
    }
  }

  #readLevel(name: string): MultusLogLevel {
    const level = findLogLevel(name);
    if (level !== undefined) return level;
    this.#stderr().warn("Cannot log at an unknown level", {
      logLevel: name,
      used: DEFAULT_LEVEL,
    });
    return DEFAULT_LEVEL;
  }

  #log(level: MultusLogLevel, msg: string, fields: LogFields): void {
    if (
      MULTUS_LOG_LEVELS.indexOf(level) < MULTUS_LOG_LEVELS.indexOf(this.#level)
    ) return;
    const text = formatFields({ msg, ...fields });
    const line = `${new Date().toISOString()} [${level}] ${text}\n`;
    if (this.#toStderr) this.#onStderr(line);
    try {
      this.#file?.append(line);
    } catch (error) {
      // Report the failure only once.
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
 * Builds the fields of an operation's line: the container, the duration, and the
 * duration of each network in milliseconds, such as
 * `networks="kube-ovn=35 default/ipvlan=12"`. Of CNI_ARGS only the pod's
 * namespace, name and UID are logged.
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
