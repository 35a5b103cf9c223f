/**
 * Starting the daemon in the background, on nodes without a service manager.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Output } from "../../base/command_line/command.ts";
import { readPidFile } from "../../base/service/pid_file.ts";

/** How long to wait until the daemon listens, in ms. It takes a second or two. */
const START_MS = 60_000;

/** How often the daemon's file is read, in ms. */
const LOOK_MS = 20;

/**
 * Starts this command line again in a session of its own, and waits until the
 * daemon listens. It has this process's stderr.
 *
 * @param pidFile The file that the daemon writes when it listens
 * @throws {CniError} 5 if it ends before, or does not listen in time
 */
export async function detach(
  pidFile: string,
  signal: AbortSignal,
): Promise<Output> {
  const line = await Deno.readTextFile("/proc/self/cmdline");
  const [program = "", ...args] = line.split("\0").slice(0, -1);
  const own = args.filter((arg, at) =>
    !/^--(detach|pid-file)\b/.test(arg) && args[at - 1] !== "--pid-file"
  );
  const child = new Deno.Command(program, {
    args: [...own, `--pid-file=${pidFile}`],
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
  const { pid } = child;
  return { json: { pid, pidFile }, text: `daemon started, process ${pid}` };
}

function failure(why: string): CniError {
  return new CniError(ErrorCode.IoFailure, `Cannot start the daemon: ${why}`);
}
