/**
 * The options of `cni daemon` and `multus daemon`.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import {
  MULTUS_LOG_LEVELS,
  type MultusLogLevel,
} from "../../plugins/multus/inspect.ts";
import type {
  CommandCall,
  FlagTable,
  FlagValues,
} from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";

/** The flags, in the order of the help text. */
export const DAEMON_FLAGS = {
  "socket-dir": {
    default: "/run/cni",
    value: "DIRECTORY",
    summary: "directory of the sockets daemon.sock and multus.sock",
  },
  "max-calls": {
    default: "64",
    value: "N",
    summary: "calls to run at the same time; others wait, DEL and CHECK first",
  },
  "kubeconfig": {
    default: "",
    value: "FILE",
    summary: "kubeconfig for the API server (default the service account)",
  },
  "node-name": {
    default: "",
    value: "NAME",
    summary:
      "node whose pods to keep in memory; overrides MULTUS_NODE_NAME and " +
      "NODE_NAME",
  },
  "dhcp-socket": {
    default: "",
    value: "FILE",
    summary: "also serve the plugin dhcp, at this socket",
  },
  "config": {
    default: "",
    value: "FILE",
    summary:
      "JSON object with keys for calls through multus.sock; they override the calls' own",
  },
  "host": {
    summary: "enter the host's mount namespace first; for containers",
  },
  "host-namespace": {
    default: "/proc/1/ns/mnt",
    value: "FILE",
    summary: "mount namespace for --host",
  },
  "metrics-address": {
    default: "",
    value: "HOST:PORT",
    summary:
      "also serve /metrics, /state, /healthz and /readyz at this address",
  },
  "no-heal": {
    summary: "do not remove resources of deleted containers",
  },
  "repair": {
    summary: "restore what other programs remove from running containers",
  },
  "pod-metrics": {
    summary: "also count the traffic of each pod's interfaces in /metrics",
  },
  "no-warm-up": {
    summary: "listen immediately; the first calls are then slower",
  },
  "pid-file": {
    default: "",
    value: "FILE",
    summary: "write the process ID to this file while it listens",
  },
  "detach": {
    summary: "return when the daemon listens in the background (default " +
      "--pid-file daemon.pid in the directory of the sockets)",
  },
  "log-level": {
    default: "verbose",
    value: "LEVEL",
    summary: "log level: debug, verbose, error or panic",
    completes: MULTUS_LOG_LEVELS,
  },
} as const satisfies FlagTable;

/** The command's options. */
export interface DaemonSettings {
  readonly socketDir: string;
  readonly maxCalls: number;
  /** Path of a kubeconfig; "" for the pod's service account. */
  readonly kubeconfig: string;
  /** "" if not given. */
  readonly nodeName: string;
  readonly metricsAddress: ListenAddress | undefined;
  /** Path of the socket for the plugin dhcp; "" for none. */
  readonly dhcpSocket: string;
  /** Path of the configuration for calls by multus.sock; "" for none. */
  readonly config: string;
  /** Path of the mount namespace to enter first; undefined for none. */
  readonly hostNamespace: string | undefined;
  /** Whether to run calls in temporary namespaces before it listens. */
  readonly warmsUp: boolean;
  /** Whether to remove resources of deleted containers. */
  readonly heals: boolean;
  /** Whether to restore what other programs remove from containers. */
  readonly repairs: boolean;
  /** Whether the metrics contain the traffic of pods. */
  readonly countsPods: boolean;
  /** Absolute path of the file with the process ID; "" for none. */
  readonly pidFile: string;
  /** Whether to start the daemon in the background. */
  readonly detaches: boolean;
  readonly logLevel: MultusLogLevel;
}

/** Where a TCP socket listens. */
export interface ListenAddress {
  readonly hostname: string;
  readonly port: number;
}

/** A call of the daemon. */
export type DaemonCall = Pick<
  CommandCall<FlagValues<typeof DAEMON_FLAGS>>,
  "command" | "flags" | "env"
>;

/**
 * Reads the options from flags and environment.
 *
 * @throws {UsageError} If a flag is invalid
 */
export function readDaemonOptions(call: DaemonCall): DaemonSettings {
  const { command, flags, env } = call;
  const socketDir = resolve(flags["socket-dir"]);
  const pidFile = flags["pid-file"] ||
    (flags.detach ? `${socketDir}/daemon.pid` : "");
  return {
    socketDir,
    maxCalls: readCount(command, flags["max-calls"]),
    kubeconfig: flags.kubeconfig,
    nodeName: flags["node-name"] || env["MULTUS_NODE_NAME"] ||
      env["NODE_NAME"] || "",
    dhcpSocket: flags["dhcp-socket"],
    config: flags.config,
    hostNamespace: flags.host ? flags["host-namespace"] : undefined,
    metricsAddress: readAddress(command, flags["metrics-address"]),
    warmsUp: !flags["no-warm-up"],
    heals: !flags["no-heal"],
    repairs: flags.repair,
    countsPods: flags["pod-metrics"],
    pidFile: pidFile && resolve(pidFile),
    detaches: flags.detach,
    logLevel: flags["log-level"],
  };
}

function readCount(name: string, text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw refuse(name, `--max-calls must be 1 to 9999, not "${text}"`);
}

/** An IPv6 address is in brackets; an empty host stands for all addresses. */
function readAddress(
  name: string,
  text: string,
): ListenAddress | undefined {
  if (text === "") return undefined;
  const [, bracketed, plain = "", port = ""] =
    /^(?:\[([\da-f:.]+)\]|([^:[\]]*)):(\d{1,5})$/i.exec(text) ?? [];
  const number = Number(port);
  if (port !== "" && number <= 65535) {
    return { hostname: bracketed ?? (plain || "::"), port: number };
  }
  throw refuse(name, `--metrics-address must be HOST:PORT, not "${text}"`);
}
