/**
 * The options of `cni daemon` and `multus daemon`.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import type { Environment } from "../../cni/args.ts";
import {
  findLogLevel,
  LOG_LEVELS,
  type LogLevel,
} from "../../plugins/multus/log/operation_log.ts";
import { type FlagTable, parseFlags, refuse } from "../multus/flags.ts";

/** The command that was called. */
export interface DaemonCommand {
  /** Its name in messages. */
  readonly name: string;
  /** Default folder of the sockets. */
  readonly socketDir: string;
}

/** `cni daemon`. */
export const CNI_DAEMON: DaemonCommand = {
  name: "cni daemon",
  socketDir: "/run/cni",
};

/** The flags, in the order of the help text. */
export function daemonFlags(
  { socketDir }: DaemonCommand,
): typeof FLAGS {
  const flag = { ...FLAGS["socket-dir"], default: socketDir };
  return { ...FLAGS, "socket-dir": flag };
}

const FLAGS = {
  "socket-dir": {
    default: "" as string,
    value: "FOLDER",
    summary: "folder of the sockets daemon.sock and multus.sock",
  },
  "max-calls": {
    default: "64",
    value: "N",
    summary: "how many calls run at once; the others wait in order",
  },
  "kubeconfig": {
    default: "",
    value: "FILE",
    summary: "how to reach the API server; by the service account if absent",
  },
  "node-name": {
    default: "",
    value: "NAME",
    summary: "the node whose pods are kept at hand; MULTUS_NODE_NAME or " +
      "NODE_NAME if absent",
  },
  "config": {
    default: "",
    value: "FILE",
    summary: "JSON object whose keys replace those of calls by multus.sock",
  },
  "metrics-address": {
    default: "",
    value: "HOST:PORT",
    summary: "serves /metrics, /healthz and /readyz there too",
  },
  "log-level": {
    default: "verbose",
    value: "LEVEL",
    summary: "debug, verbose, error or panic",
  },
  "help": { default: false, summary: "shows help for the command" },
} as const satisfies FlagTable;

/** The command's options. */
export interface DaemonOptions {
  readonly socketDir: string;
  readonly maxCalls: number;
  /** Path of a kubeconfig; "" for the pod's service account. */
  readonly kubeconfig: string;
  /** "" if not given. */
  readonly nodeName: string;
  readonly metricsAddress: Address | undefined;
  /** Path of the configuration for calls by multus.sock; "" for none. */
  readonly config: string;
  readonly logLevel: LogLevel;
}

/** Where a TCP socket listens. */
export interface Address {
  readonly hostname: string;
  readonly port: number;
}

/**
 * Reads the command line.
 *
 * @returns Undefined if help is requested
 * @throws {CniError} 4 if it is invalid
 */
export function readDaemonOptions(
  command: DaemonCommand,
  args: readonly string[],
  env: Environment,
): DaemonOptions | undefined {
  const flags = parseFlags(command.name, daemonFlags(command), args);
  if (flags.help) return undefined;
  const level = flags["log-level"];
  const logLevel = findLogLevel(level);
  if (logLevel === undefined) {
    const known = LOG_LEVELS.join(", ");
    throw refuse(command.name, `--log-level: "${level}" is none of ${known}`);
  }
  if (flags["socket-dir"] === "") {
    throw refuse(command.name, "--socket-dir needs a value");
  }
  return {
    socketDir: resolve(flags["socket-dir"]),
    maxCalls: readCount(command, flags["max-calls"]),
    kubeconfig: flags.kubeconfig,
    nodeName: flags["node-name"] || env["MULTUS_NODE_NAME"] ||
      env["NODE_NAME"] || "",
    config: flags.config,
    metricsAddress: readAddress(command, flags["metrics-address"]),
    logLevel,
  };
}

function readCount({ name }: DaemonCommand, text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw refuse(name, `--max-calls is 1 to 9999, not "${text}"`);
}

/** An IPv6 address is in brackets; an empty host stands for all addresses. */
function readAddress(
  { name }: DaemonCommand,
  text: string,
): Address | undefined {
  if (text === "") return undefined;
  const [, bracketed, plain = "", port = ""] =
    /^(?:\[([\da-f:.]+)\]|([^:[\]]*)):(\d{1,5})$/i.exec(text) ?? [];
  const number = Number(port);
  if (port !== "" && number <= 65535) {
    return { hostname: bracketed ?? (plain || "::"), port: number };
  }
  throw refuse(name, `--metrics-address is HOST:PORT, not "${text}"`);
}
