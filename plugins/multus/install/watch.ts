/**
 * Repeats an action after changes in directories.
 *
 * @module
 */

import { describeError } from "../../../base/error.ts";
import {
  deadline,
  JoinedSignal,
  pause,
  waitUntil,
} from "../../../base/deadline.ts";
import type { Log } from "../../../base/log/log.ts";
import { isDirectory } from "./placed_file.ts";

/**
 * Poll interval, in ms. It catches changes on file systems without
 * notification, and in directories that did not exist.
 */
const POLL_MS = 10_000;
/**
 * Pause after the first failure, in ms, doubled each time up to
 * {@linkcode POLL_MS}.
 */
const FIRST_RETRY_MS = 1000;
/**
 * Delay after a change, in ms, because changes come in groups: a file is
 * created, then written.
 */
const SETTLE_MS = 100;

/**
 * Acts now, and again after each change in a directory or after some time, until
 * the signal.
 *
 * @param directories Missing directories are polled
 * @param act Returns whether it succeeded; never throws
 */
export async function watch(
  directories: readonly string[],
  act: () => Promise<boolean>,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const open = createOpener(directories, log);
  for (let failures = 0; !signal.aborted;) {
    // Opened first, so that a change during the action triggers another one.
    const watcher = open();
    try {
      failures = await act() ? 0 : failures + 1;
      using end = new JoinedSignal(deadline(chooseWait(failures)), signal);
      await waitForChange(watcher, end.signal);
    } finally {
      watcher?.close();
    }
    await pause(SETTLE_MS, signal);
  }
}

function chooseWait(failures: number): number {
  if (failures === 0) return POLL_MS;
  return Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), POLL_MS);
}

/** Returns a function that opens a watcher, and logs a failure once. */
function createOpener(
  directories: readonly string[],
  log: Log,
): () => Deno.FsWatcher | undefined {
  let isTold = false;
  return () => {
    const present = [...new Set(directories)].filter(isDirectory);
    if (present.length === 0) return undefined;
    try {
      return Deno.watchFs(present, { recursive: false });
    } catch (error) {
      const reason = describeError(error);
      if (!isTold) {
        log.warn("cannot watch directories, will poll them", { reason });
      }
      isTold = true;
      return undefined;
    }
  };
}

async function waitForChange(
  watcher: Deno.FsWatcher | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (watcher === undefined) return void await waitUntil(never, signal);
  const change = watcher[Symbol.asyncIterator]().next();
  await waitUntil(change, signal);
}

const never = new Promise<never>(() => {});
