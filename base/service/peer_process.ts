/**
 * The process at the other end of a connection, according to /proc.
 *
 * @module
 */

import type { Fd } from "../../ffi/file/fd.ts";
import { isReadable } from "../../ffi/libc.ts";
import type { Peer } from "../../ffi/socket/unix_socket.ts";
import { readProcessStat } from "../process/process_stat.ts";

/** The identity of a peer. */
export interface PeerSource {
  readonly peer: Pick<Peer, "pid">;
  /** See {@linkcode AcceptedStream.openPeerProcess}. */
  openPeerProcess(): Fd | undefined;
}

/**
 * A process that has connected. It is detected if its ID belongs to a different
 * process by the time /proc is read.
 */
export class PeerProcess {
  readonly #source: PeerSource;
  /** Start time at the connection, if the kernel has no descriptors of peers. */
  readonly #startTicks: string | undefined;

  /** Must be created as soon as the connection is accepted. */
  constructor(source: PeerSource) {
    this.#source = source;
    try {
      using opened = source.openPeerProcess();
      if (opened !== undefined) return;
      this.#startTicks = readProcessStat(source.peer.pid).startTicks;
    } catch {
      // The process has exited, which read() reports.
    }
  }

  /**
   * Reads files of the process.
   *
   * @param read Receives the directory of the process in /proc
   * @throws {Error} If the process has exited, or /proc does not show it
   */
  read<T>(read: (directory: string) => T): T {
    const { pid } = this.#source.peer;
    if (pid === 0 || !isOwnProc()) {
      throw new Error("/proc is of another PID namespace");
    }
    using opened = this.#source.openPeerProcess();
    const result = read(`/proc/${pid}`);
    // A process keeps its ID as long as its descriptor does not report its exit.
    const isSame = opened === undefined
      ? this.#startTicks === readProcessStat(pid).startTicks
      : !isReadable(opened.number);
    if (!isSame) throw new Error(`process ${pid} has exited`);
    return result;
  }
}

let isOwn: boolean | undefined;

/** Reports whether /proc is of this process's PID namespace. */
function isOwnProc(): boolean {
  return isOwn ??= Deno.readLinkSync("/proc/self") === String(Deno.pid);
}
