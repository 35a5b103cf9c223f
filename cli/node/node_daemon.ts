/**
 * The state of the node daemon: whether it answers, and its counters.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { JoinedSignal } from "../../base/deadline.ts";
import {
  DEFAULT_SOCKET,
  httpSocketIn,
} from "../../daemon/wire/daemon_socket.ts";
import { SILENCE_MS } from "../../daemon/wire/call_format.ts";
import { ifPossible } from "../../base/files/io.ts";
import { isErrno } from "../../ffi/errno.ts";
import { findListener, type Peer } from "../../ffi/socket/unix_socket.ts";
import type { StateDocument } from "../../daemon/server/state_handler.ts";
import { readProcessStat } from "../../base/process/process_stat.ts";

export type { StateDocument };

/** The state of a socket of the node daemon. */
export type NodeDaemon =
  /** Nothing listens. */
  | { readonly is: "absent" }
  /** A process that plugins do not trust. */
  | { readonly is: "foreign"; readonly pid: number; readonly uid: number }
  /** A process that does not answer. */
  | {
    readonly is: "silent";
    /** 0 if it is in a PID namespace that cannot be seen from here. */
    readonly pid: number;
    /** Whether a signal has stopped it. */
    readonly isStopped: boolean;
  }
  /** A daemon. */
  | {
    readonly is: "running";
    readonly pid: number;
    /** Undefined for a daemon that does not describe itself. */
    readonly state: StateDocument | undefined;
  };

/** All states. */
export const NODE_DAEMON_STATES: readonly NodeDaemon["is"][] = [
  "running",
  "absent",
  "silent",
  "foreign",
];

/** A reason for which the daemon left calls to their callers. */
export type ReasonRow = StateDocument["calls"]["reasons"][number];

/** Where to look. */
export interface DaemonPlace {
  /** Path of the daemon's socket. */
  readonly socket: string;
  readonly signal: AbortSignal;
  /** Where processes are; /proc by default. */
  readonly proc?: string;
}

/**
 * Queries the state of the daemon at a socket.
 *
 * @throws {SyscallError} EACCES If the user may not connect
 */
export async function readNodeDaemon(
  { socket, signal, proc = "/proc" }: DaemonPlace,
): Promise<NodeDaemon> {
  const owner = findOwner(socket);
  if (owner === undefined) return { is: "absent" };
  const { pid, uid } = owner;
  if (uid !== 0 && uid !== Deno.uid()) return { is: "foreign", pid, uid };
  if (isStopped(proc, pid)) return { is: "silent", pid, isStopped: true };
  try {
    const state = await askState(httpSocketIn(dirname(socket)), signal);
    return { is: "running", pid, state };
  } catch {
    signal.throwIfAborted();
    return { is: "silent", pid, isStopped: isStopped(proc, pid) };
  }
}

/** Returns the process that listens; undefined if the queue of the socket is full. */
function findOwner(socket: string): Pick<Peer, "pid" | "uid"> | undefined {
  try {
    return findListener(socket);
  } catch (error) {
    if (isErrno(error, "EAGAIN")) return { pid: 0, uid: 0 };
    throw error;
  }
}

/**
 * Waits as long as callers do for a sign of life: a loaded node might not run the daemon
 * for a while.
 *
 * @returns Undefined if the daemon answers, and does not describe itself
 * @throws {Error} If it does not answer
 */
async function askState(
  path: string,
  signal: AbortSignal,
): Promise<StateDocument | undefined> {
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  using end = new JoinedSignal(SILENCE_MS, signal);
  const answer = await fetch("http://localhost/state", {
    client,
    signal: end.signal,
  });
  if (answer.ok) return await answer.json();
  await answer.body?.cancel();
  return undefined;
}

/**
 * Finds the process that listens on the node daemon's socket.
 *
 * @returns Undefined if no process listens, or if this user may not connect
 */
export async function findDaemonProcess(
  signal: AbortSignal,
): Promise<number | undefined> {
  // A user who may not connect to the daemon may not stop it either.
  const daemon = await readNodeDaemon({ socket: DEFAULT_SOCKET, signal })
    .catch(() => undefined);
  return daemon === undefined || daemon.is === "absent"
    ? undefined
    : daemon.pid || undefined;
}

/** Reads which executable a process runs, and whether it has been replaced. */
export function readExecutable(
  pid: number | undefined,
): { readonly executable?: string; readonly isDeleted: boolean } {
  const path = ifPossible(() => Deno.readLinkSync(`/proc/${pid}/exe`)) ?? "";
  const executable = path.replace(/ \(deleted\)$/, "");
  const isDeleted = executable !== path;
  return { ...executable !== "" && { executable }, isDeleted };
}

function isStopped(proc: string, pid: number): boolean {
  const { state } = ifPossible(() => readProcessStat(pid, proc)) ?? {};
  return state === "T" || state === "t";
}

/** Describes a daemon in a line, without a full stop. */
export function describeNodeDaemon(daemon: NodeDaemon): string {
  switch (daemon.is) {
    case "absent":
      return "none; each call of this project's plugins starts a JavaScript engine";
    case "foreign":
      return `process ${daemon.pid} of user ${daemon.uid}, which plugins do not use`;
    case "silent":
      return daemon.isStopped
        ? `process ${daemon.pid} is stopped`
        : "a process that does not answer";
    case "running": {
      const { pid, state } = daemon;
      if (state === undefined) return `process ${pid}, of a different release`;
      const { version, calls } = state;
      return `process ${pid}, version ${version}, since ` +
        `${readStart(state)}; ${calls.done} calls, ` +
        `${calls.left} declined`;
    }
  }
}

/** Returns when a daemon began, to the second. */
export function readStart({ startedAt }: StateDocument): string {
  return startedAt.replace(/\.\d+Z$/, "Z");
}
