/**
 * The options of `multus daemon`.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import type { Environment } from "../../../cni/args.ts";
import { type FlagTable, parseFlags, refuse } from "../flags.ts";
import {
  findLogLevel,
  LOG_LEVELS,
  type LogLevel,
} from "../../../plugins/multus/log/operation_log.ts";

/** The command's name in errors. */
export const COMMAND = "multus daemon";

/** The flags, in the order of the help text. */
export const DAEMON_FLAGS = {
  "kubeconfig": {
    default: "",
    value: "FILE",
    summary: "how to reach the API server; by the service account if not given",
  },
  "socket-dir": {
    default: "/run/multus",
    value: "FOLDER",
    summary: "where plugins look for the socket: their daemonSocketDir",
  },
  "node-name": {
    default: "",
    value: "NAME",
    summary: "the node whose pods are remembered; else that of " +
      "MULTUS_NODE_NAME or NODE_NAME, else no pod is",
  },
  "log-level": {
    default: "verbose",
    value: "LEVEL",
    summary: "debug, verbose, error or panic",
  },
  "help": { default: false, summary: "tells about the command" },
} as const satisfies FlagTable;

/** The command's options. */
export interface DaemonOptions {
  /** Path of a kubeconfig; "" for the pod's service account. */
  readonly kubeconfig: string;
  readonly socketDir: string;
  /** "" if not given. */
  readonly nodeName: string;
  readonly logLevel: LogLevel;
}

/**
 * Reads the command line.
 *
 * @returns Undefined if help is requested
 * @throws {CniError} 4 if it is invalid
 */
export function readDaemonOptions(
  args: readonly string[],
  env: Environment,
): DaemonOptions | undefined {
  const flags = parseFlags(COMMAND, DAEMON_FLAGS, args);
  if (flags.help) return undefined;
  const level = flags["log-level"];
  const logLevel = findLogLevel(level);
  if (logLevel === undefined) {
    const known = LOG_LEVELS.join(", ");
    throw refuse(COMMAND, `--log-level: "${level}" is none of ${known}`);
  }
  if (flags["socket-dir"] === "") {
    throw refuse(COMMAND, "--socket-dir needs a value");
  }
  return {
    kubeconfig: flags.kubeconfig,
    socketDir: resolve(flags["socket-dir"]),
    nodeName: flags["node-name"] || env["MULTUS_NODE_NAME"] ||
      env["NODE_NAME"] || "",
    logLevel,
  };
}
