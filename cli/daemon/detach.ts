/**
 * Starting the daemon in the background, on nodes without a service manager.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { Output } from "../../base/command_line/command.ts";
import { DEFAULT_SOCKET } from "../../daemon/wire/daemon_socket.ts";
import { readPidFile } from "../../base/service/pid_file.ts";
import { readProcessStat } from "../../base/process/process_stat.ts";

/** How long to wait until the daemon listens, in ms. It takes a second or two. */
const START_MS = 60_000;

/** How often the daemon's file is read, in ms. */
const LOOK_MS = 20;

/**
 * Starts this command line again in a new session, and waits until the daemon listens.
 * The daemon inherits this process's stderr.
 *
 * @param pidFile The file that the daemon writes when it listens
 * @throws {CniError} 5 if the daemon exits first, or does not listen in time
 */
export async function detach(
  pidFile: string,
  signal: AbortSignal,
): Promise<Output> {
  const [program = "", ...args] = readCommandLine("self");
  const own = args.filter((arg, at) =>
    !/^--(detach|pid-file)\b/.test(arg) && args[at - 1] !== "--pid-file"
  );
  const pid = await start([program, ...own], pidFile, signal);
  return { json: { pid, pidFile }, text: `daemon started, process ${pid}` };
}

/** The log of a daemon whose stderr was not a file. */
const LOG = "/var/log/cni-daemon.log";
/** The process ID file of a daemon in the default directory. */
const PID_FILE = `${dirname(DEFAULT_SOCKET)}/daemon.pid`;

/**
 * Starts the daemon of an executable in the background. It replaces a daemon that runs
 * in the background, with the same flags and log file.
 *
 * @param pid The daemon that listens; undefined for none
 * @returns The new daemon's process ID; undefined if another program started the daemon
 *   that listens, and would start it again
 * @throws {CniError} 5 if the daemon exits first, or does not listen in time
 */
export async function restartDetached(
  executable: string,
  pid: number | undefined,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (pid !== undefined && !isOrphan(pid)) return undefined;
  const [, ...args] = pid === undefined
    ? ["", "daemon"]
    : readCommandLine(`${pid}`);
  const flag = "--pid-file=";
  const pidFile = args.find((arg) => arg.startsWith(flag))?.slice(flag.length);
  const log = ifPossible(() => Deno.readLinkSync(`/proc/${pid}/fd/2`));
  const isFile = ifPossible(() => Deno.statSync(log ?? ""))?.isFile ?? false;
  const words = args.filter((arg) => !arg.startsWith(flag));
  return await start(
    [
      ...["sh", "-c", 'log=$0; exec "$@" 2>>"$log"'],
      ...[isFile && log ? log : LOG, executable, ...words],
    ],
    pidFile ?? PID_FILE,
    signal,
  );
}

/** Reports whether init has adopted a process. */
function isOrphan(pid: number): boolean {
  return ifPossible(() => readProcessStat(pid))?.parent === 1;
}

function readCommandLine(pid: string): string[] {
  return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0").slice(0, -1);
}

/** Starts a daemon, and waits until it listens; returns its process ID. */
async function start(
  [program = "", ...args]: readonly string[],
  pidFile: string,
  signal: AbortSignal,
): Promise<number> {
  const child = new Deno.Command(program, {
    args: [...args, `--pid-file=${pidFile}`],
    detached: true,
    stdin: "null",
    stdout: "null",
  }).spawn();
  child.unref();
  let ended: Deno.CommandStatus | undefined;
  child.status.then((status) => ended = status);
  using limit = new JoinedSignal(START_MS);
  while (readPidFile(pidFile) !== child.pid) {
    if (ended !== undefined) {
      throw failure(`it exited with ${ended.signal ?? `code ${ended.code}`}`);
    }
    if (limit.signal.aborted || signal.aborted) {
      child.kill();
      signal.throwIfAborted();
      throw failure(
        `it did not listen and write "${pidFile}" within ${START_MS / 1000} s`,
      );
    }
    await pause(LOOK_MS, signal);
  }
  return child.pid;
}

function failure(why: string): CniError {
  return new CniError(ErrorCode.IoFailure, `Cannot start the daemon: ${why}`);
}
