/**
 * `cni daemon enable`, `disable`, `restart` and `status`: the node daemon as a
 * service of this node.
 *
 * @module
 */

import { DEFAULT_SOCKET } from "../../daemon/wire/daemon_socket.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { formatTime } from "../../base/time.ts";
import { ifPossible } from "../../base/files/io.ts";
import { fileExists } from "../../ffi/socket/unix_stream.ts";
import type { Output } from "../../base/command_line/command.ts";
import { type Column, formatTable } from "../../base/command_line/table.ts";
import type { CniCall } from "../flags.ts";
import {
  findDaemonProcess,
  type NodeDaemon,
  readExecutable,
  readNodeDaemon,
  readStart,
  type StateDocument,
} from "../node/node_daemon.ts";
import { restartDetached } from "./detach.ts";
import {
  DaemonService,
  noteNotStarted,
  noteStillRuns,
} from "../install/daemon_service.ts";
import { requireExecutable } from "../install/command.ts";
import { readProcessStat } from "../../base/process/process_stat.ts";

/** Starts the daemon of this executable, now and at each boot. */
export async function enable(call: CniCall): Promise<Output> {
  const service = getService(call);
  requireExecutable();
  const executable = Deno.execPath();
  await service.enable(executable);
  if (service.isLive) return report("started");
  const pid = await findDaemonProcess(call.signal);
  return { ...report("unit installed"), note: noteNotStarted(executable, pid) };
}

/** Stops the daemon, and no longer starts it at boot. Fails if systemd did not start the daemon that runs. */
export async function disable(call: CniCall): Promise<Output> {
  const { signal } = call;
  await DaemonService.find(signal)?.disable();
  const pid = await findDaemonProcess(signal);
  if (pid === undefined) {
    getService(call);
    return report("disabled");
  }
  return {
    json: { daemon: "running", pid },
    text: `daemon running, process ${pid}`,
    note: noteStillRuns(pid),
    exitCode: 1,
  };
}

/** Restarts the daemon; in the background where systemd does not run. */
export async function restart(call: CniCall): Promise<Output> {
  const { signal } = call;
  const service = DaemonService.find(signal);
  if (service?.isLive) {
    await service.restart();
    return report("restarted");
  }
  requireExecutable();
  const pid = await findDaemonProcess(signal);
  if (await restartDetached(Deno.execPath(), pid, signal) === undefined) {
    throw refuse(call, `systemd does not run process ${pid}`);
  }
  return report(pid === undefined ? "started" : "restarted");
}

function report(change: string): Output {
  return { json: { daemon: change }, text: `daemon ${change}` };
}

/** @throws {CniError} 999 if systemd does not run this node */
function getService(call: CniCall): DaemonService {
  const service = DaemonService.find(call.signal);
  if (service !== undefined) return service;
  throw refuse(call, "this node has no systemd");
}

function refuse({ command }: CniCall, why: string): CniError {
  return new CniError(
    ErrorCode.Internal,
    `Cannot run "${command}": ${why}; run cni daemon --detach, or have the ` +
      "node's service manager run cni daemon",
  );
}

/** The state of the daemon and of its service. */
interface Row {
  /** Whether the daemon answers. */
  readonly running: boolean;
  /** Which kind of program listens. */
  readonly state: NodeDaemon["is"];
  /** Whether the service starts at boot; null without systemd. */
  readonly enabled: boolean | null;
  readonly pid: number | null;
  /** When the process started. */
  readonly since: string | null;
  readonly memoryBytes: number | null;
  readonly executable: string | null;
  /** Outcomes of the calls; null if the daemon does not report them. */
  readonly calls: StateDocument["calls"] | null;
  /** The address of the metrics, and the error if it cannot listen there; null without an address. */
  readonly metrics: StateDocument["metrics"] | null;
  /** Removed orphans and failures; null if the daemon does not remove orphans. */
  readonly leftovers: NonNullable<StateDocument["leftovers"]> | null;
  /** Repairs and failures; null if the daemon does not repair. */
  readonly repairs: NonNullable<StateDocument["repairs"]> | null;
  /** Pods without networks that they request; null if the daemon does not follow pods. */
  readonly missingNetworks:
    | NonNullable<StateDocument["missingNetworks"]>
    | null;
}

/** Shows which process listens on the daemon's socket. */
export async function status({ signal }: CniCall): Promise<Output> {
  const service = DaemonService.find(signal);
  const file = service?.isLive ? (await service.read()).file : undefined;
  const daemon = await readNodeDaemon({ socket: DEFAULT_SOCKET, signal });
  const pid = daemon.is === "absent" ? undefined : daemon.pid;
  const { executable, isDeleted } = readExecutable(pid);
  const state = daemon.is === "running" ? daemon.state : undefined;
  const row: Row = {
    running: daemon.is === "running",
    state: daemon.is,
    enabled: file === undefined ? null : file === "enabled",
    pid: pid ?? null,
    // As in `cni doctor`.
    since: state ? readStart(state) : pid ? findStart(pid) : null,
    memoryBytes: pid ? findMemory(pid) : null,
    executable: executable ?? null,
    calls: state?.calls ?? null,
    metrics: state?.metrics ?? null,
    leftovers: state?.leftovers ?? null,
    repairs: state?.repairs ?? null,
    missingNetworks: state?.missingNetworks ?? null,
  };
  const notes = [
    ...state?.metrics?.problem
      ? [describeMetrics(state.metrics.address, state.metrics.problem)]
      : [],
    ...row.leftovers ? describeOrphans(row.leftovers) : [],
    ...row.repairs ? describeRepairs(row.repairs) : [],
    ...describeMissing(row.missingNetworks ?? []),
    ...isDeleted ? [describeDeleted(executable, pid)] : [],
    ...row.calls?.reasons.map(({ reason, count, advice }) =>
      `${
        count === 1 ? "1 call ran locally" : `${count} calls ran locally`
      }, ${reason}: ${advice}`
    ) ?? [],
  ];
  return {
    json: row,
    text: (style) => formatTable(COLUMNS, [row], style),
    note: notes.length === 0 ? undefined : notes.join("\n"),
    exitCode: row.running ? 0 : 1,
  };
}

/** Describes the orphans that a daemon has removed, and those that it cannot remove. */
function describeOrphans(
  { removed, failed, problem }: NonNullable<Row["leftovers"]>,
): string[] {
  const count = Object.values(removed).reduce((sum, one) => sum + one, 0);
  const [first] = failed;
  return [
    ...count === 0
      ? []
      : [`It has removed ${countOrphans(count)} of deleted containers`],
    ...first === undefined ? [] : [
      `It cannot remove ${countOrphans(failed.length)} of deleted ` +
      `containers, such as ${first.kind} ${first.where}: ${first.error}`,
    ],
    ...problem === undefined ? [] : [problem],
  ];
}

/** Describes what a daemon has repaired, and what it cannot repair. */
function describeRepairs(
  { repaired, remaining, problem }: NonNullable<Row["repairs"]>,
): string[] {
  const [first] = remaining;
  return [
    ...repaired === 0 ? [] : [`It has repaired ${countAttachments(repaired)}`],
    ...first === undefined ? [] : [
      `It cannot repair ${countAttachments(remaining.length)}, such as ` +
      `${first.container} ${first.ifname} on "${first.network}": ${first.error}`,
    ],
    ...problem === undefined ? [] : [problem],
  ];
}

/** Names the pods without networks that they request. */
function describeMissing(
  missing: NonNullable<Row["missingNetworks"]>,
): string[] {
  const [first] = missing;
  if (first === undefined) return [];
  const { pod, networks } = first;
  const those = missing.length === 1
    ? pod
    : `${missing.length} pods, such as ${pod}`;
  const verb = missing.length === 1 ? "runs" : "run";
  return [
    `${those} ${verb} without a network that was requested: ${
      networks.join(", ")
    }`,
  ];
}

function countAttachments(count: number): string {
  return count === 1 ? "1 attachment" : `${count} attachments`;
}

function countOrphans(count: number): string {
  return count === 1 ? "1 resource" : `${count} resources`;
}

function describeMetrics(address: string, problem: string): string {
  return `It does not serve its metrics at ${address}: ${problem}; calls are not affected, and ` +
    "it tries again";
}

function describeDeleted(
  executable: string | undefined,
  pid: number | undefined,
): string {
  return executable !== undefined && fileExists(executable)
    ? "It runs an executable that has been replaced: cni daemon restart"
    : `It runs an executable that has been removed; to stop it: kill ${pid}`;
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "STATE", cell: ({ state }) => state },
  { heading: "ENABLED", cell: ({ enabled }) => toWord(enabled) },
  { heading: "PID", cell: ({ pid }) => `${pid ?? ""}` },
  { heading: "SINCE", cell: ({ since }) => since ?? "" },
  {
    heading: "MEMORY",
    cell: ({ memoryBytes }) =>
      memoryBytes === null ? "" : `${Math.round(memoryBytes / 2 ** 20)} MiB`,
  },
  { heading: "CALLS", cell: ({ calls }) => `${calls?.done ?? ""}` },
  { heading: "LEFT", cell: ({ calls }) => `${calls?.left ?? ""}` },
  { heading: "EXECUTABLE", cell: ({ executable }) => executable ?? "" },
];

function toWord(value: boolean | null): string {
  return value === null ? "" : value ? "yes" : "no";
}

/** Ticks a second of times in /proc, on all architectures of Linux. Source: proc(5), time(7). */
const TICKS = 100;

/** Returns when a process started; null if it has exited. */
function findStart(pid: number): string | null {
  const ticks = ifPossible(() => readProcessStat(pid))?.startTicks;
  const [, boot] = /^btime (\d+)$/m
    .exec(Deno.readTextFileSync("/proc/stat")) ?? [];
  if (ticks === undefined || boot === undefined) return null;
  const seconds = Math.floor(Number(boot) + Number(ticks) / TICKS);
  return formatTime(new Date(seconds * 1000));
}

/** Returns the private memory of a process, in bytes; null if it has exited. */
function findMemory(pid: number): number | null {
  const status = ifPossible(() => Deno.readTextFileSync(`/proc/${pid}/status`));
  const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(status ?? "") ?? [];
  return kibibytes === undefined ? null : Number(kibibytes) * 1024;
}
