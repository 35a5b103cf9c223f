/**
 * What `cni install` and `cni uninstall` print.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { join, resolve } from "@std/path/posix";
import { ifPossible } from "../../base/files/io.ts";
import type { Output } from "../../base/command_line/command.ts";
import { type Column, formatTable } from "../../base/command_line/table.ts";
import { DEFAULT_SOCKET } from "../../daemon/wire/daemon_socket.ts";
import type { CniCall } from "../flags.ts";
import {
  noteLeftAlone,
  noteNotStarted,
  noteStillRuns,
  type ServiceChange,
} from "./daemon_service.ts";
import { type Change, EXECUTABLE, type Undone } from "./installation.ts";
import { assessNode, type NodeAssessment } from "./assessment.ts";

/**
 * Directories of plugins that runtimes use. Source: defaults of containerd, CRI-O,
 * podman, k3s, RKE2 and GKE.
 */
const RUNTIME_DIRECTORIES: readonly string[] = [
  "/opt/cni/bin",
  "/usr/libexec/cni",
  "/usr/lib/cni",
  "/usr/local/libexec/cni",
  "/usr/local/lib/cni",
  "/var/lib/rancher/k3s/data/cni",
  "/var/lib/rancher/k3s/data/current/bin",
  "/home/kubernetes/bin",
];

/** A file, and what was done to it. */
export interface PluginRow {
  readonly name: string;
  readonly change: Change | Undone;
}

/** The change to the node daemon, or why it could not be made. */
export interface DaemonReport {
  readonly change: ServiceChange | "failed" | "running";
  readonly problem?: string;
  /** A daemon that listens, and that systemd did not start. */
  readonly pid?: number | undefined;
}

/** Reports whether runtimes use a directory by default. */
export function isOfRuntimes(directory: string): boolean {
  return RUNTIME_DIRECTORIES.includes(resolve(directory));
}

const COLUMNS: readonly Column<
  & Pick<DaemonReport | PluginRow, "change">
  & Pick<DaemonReport, "pid">
  & Pick<PluginRow, "name">
>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  {
    heading: "CHANGE",
    cell: ({ change, pid }) =>
      pid === undefined ? change : `${change}, process ${pid}`,
  },
];

/** Reports what was done, or would be. */
export function report(
  call: CniCall,
  rows: readonly PluginRow[],
  daemon: DaemonReport | undefined,
): Output {
  const [directory = ""] = call.args;
  const isDryRun = call.flags["dry-run"] === true;
  const shown = daemon ? [...rows, { ...daemon, name: "daemon" }] : rows;
  return {
    json: { directory, dryRun: isDryRun, files: rows, ...daemon && { daemon } },
    text: (style) => formatTable(COLUMNS, shown, style),
    note: [
      ...explainOthers(directory, rows),
      ...isDryRun
        ? ["Nothing was changed (--dry-run)"]
        : explainFiles(directory, rows, daemon),
      ...explainDaemon(call, daemon),
    ].join("\n") || undefined,
  };
}

/** Reports the changes, and their effect on the node's networks. */
export async function reportPlan(
  call: CniCall,
  rows: readonly PluginRow[],
  daemon: DaemonReport | undefined,
): Promise<Output> {
  const { json, text, ...others } = report(call, rows, daemon);
  const changes = new Map(rows.map(({ name, change }) => [name, change]));
  const assessment = await assessNode(call, changes);
  return {
    ...others,
    json: { ...json as object, ...assessment },
    text: (style) =>
      [
        typeof text === "string" ? text : text(style),
        ...formatAssessment(assessment),
      ].join("\n"),
  };
}

function formatAssessment({ networks, limits }: NodeAssessment): string[] {
  return [
    ...networks.flatMap(({
      network,
      file,
      plugins,
      unknownKeys,
      differences,
      errors,
    }) => [
      `\n${network} (${file})`,
      ...Object.entries(
        Object.groupBy(Object.keys(plugins), (type) => plugins[type] ?? ""),
      ).map(([change, types]) => `  ${change} ${types?.join(", ")}`),
      ...errors.map((text) => `  error ${text}`),
      ...unknownKeys.map((text) => `  unknown ${text}`),
      ...differences.map((text) => `  differs ${text}`),
    ]),
    ...limits.map((text) => `\nerror ${text}`),
  ];
}

/** Explains what becomes of plugins that are links to another program's executable. */
function explainOthers(
  directory: string,
  rows: readonly PluginRow[],
): string[] {
  const links = rows.filter(({ change }) => change === "repointed")
    .map(({ name }) => name);
  return links.length === 0 ? [] : [
    `In "${directory}", ${links.join(", ")} link to a program that is ` +
    "replaced; they keep running it, from a copy in .cni-install",
  ];
}

/** Explains how to go back, and that a daemon runs another executable. */
function explainFiles(
  directory: string,
  rows: readonly PluginRow[],
  daemon: DaemonReport | undefined,
): string[] {
  const notes: string[] = [];
  if (rows.some(({ change }) => change === "replaced")) {
    notes.push(
      "To restore the replaced files: " + shell`cni uninstall ${directory}`,
    );
  }
  const isUpdate = rows.some(({ name, change }) =>
    name === EXECUTABLE && (change === "updated" || change === "replaced")
  );
  if (
    (daemon === undefined || daemon.change === "unit installed") && isUpdate &&
    ifPossible(() => Deno.lstatSync(DEFAULT_SOCKET))
  ) {
    notes.push("Restart the node daemon: it still runs the old executable");
  }
  return notes;
}

/** Explains what the node daemon needs, or why it is left out. */
function explainDaemon(
  { args: [directory = ""], command, flags }: CniCall,
  daemon: DaemonReport | undefined,
): string[] {
  const executable = join(resolve(directory), EXECUTABLE);
  const isInstall = / install$/.test(command) && !flags.rollback;
  if (daemon === undefined) {
    return !isInstall || flags["no-daemon"] || isOfRuntimes(directory) ? [] : [
      `The node daemon is not installed: no runtime uses "${directory}" by ` +
      `default. To install it: ${executable} daemon enable`,
    ];
  }
  const { change, pid, problem } = daemon;
  return [
    ...change === "unit installed" ? [noteNotStarted(executable, pid)] : [],
    ...change === "running" && pid
      ? [isInstall ? noteLeftAlone(executable, pid) : noteStillRuns(pid)]
      : [],
    ...problem === undefined ? [] : [
      `The node daemon: ${problem}; plugins work without it. To see why: ` +
      `journalctl -u cni-daemon -n 20. Then: ${executable} daemon enable`,
    ],
  ];
}
