/**
 * The options of `multus daemon`.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import type {
  CommandCall,
  FlagTable,
  FlagValues,
} from "../../../tool/command.ts";
import {
  LOG_LEVELS,
  type LogLevel,
} from "../../../plugins/multus/log/operation_log.ts";

/** The flags, in the order of the help text. */
export const DAEMON_FLAGS = {
  "kubeconfig": {
    default: "",
    value: "FILE",
    summary: "kubeconfig for the API server (default the service account)",
  },
  "socket-dir": {
    default: "/run/multus",
    value: "FOLDER",
    summary: "folder of the socket; daemonSocketDir of the plugins",
  },
  "node-name": {
    default: "",
    value: "NAME",
    summary: "node to cache pods of; overrides MULTUS_NODE_NAME and NODE_NAME",
  },
  "log-level": {
    default: "verbose",
    value: "LEVEL",
    summary: "level of the log: debug, verbose, error or panic",
    completes: LOG_LEVELS,
  },
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

/** Reads the options from flags and environment. */
export function readDaemonOptions(
  { flags, env }: Pick<
    CommandCall<FlagValues<typeof DAEMON_FLAGS>>,
    "flags" | "env"
  >,
): DaemonOptions {
  return {
    kubeconfig: flags.kubeconfig,
    socketDir: resolve(flags["socket-dir"]),
    nodeName: flags["node-name"] || env["MULTUS_NODE_NAME"] ||
      env["NODE_NAME"] || "",
    logLevel: flags["log-level"],
  };
}
