/**
 * Doing something again whenever it may have to be done.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { deadline, pause, waitUntil } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import { isFolder } from "./node_folder.ts";

/**
 * How often all is looked at, in ms: what is changed on a file system that
 * does not tell, or in a folder that was not there, is noticed then.
 */
const POLL_MS = 10_000;
/** After a failure it is tried again after this time, doubled each time up to {@linkcode POLL_MS}. */
const FIRST_RETRY_MS = 1000;
/** Changes often come in groups: a file that is written is first created. */
const SETTLE_MS = 100;

/**
 * Does something now, and again when a folder's content has changed or some
 * time has passed, until the signal.
 *
 * @param folders Those that are not there, or not yet, are polled
 * @param act Returns whether all is well; never throws
 */
export async function watch(
  folders: readonly string[],
  act: () => Promise<boolean>,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const open = createOpener(folders, log);
  for (let failures = 0; !signal.aborted;) {
    // Opened first: what changes while it is looked at is looked at again.
    const watcher = open();
    try {
      failures = await act() ? 0 : failures + 1;
      await waitForChange(watcher, deadline(chooseWait(failures), signal));
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

/** Makes what opens a watcher, and says once if that cannot be done. */
function createOpener(
  folders: readonly string[],
  log: Log,
): () => Deno.FsWatcher | undefined {
  let isTold = false;
  return () => {
    const present = [...new Set(folders)].filter(isFolder);
    if (present.length === 0) return undefined;
    try {
      return Deno.watchFs(present, { recursive: false });
    } catch (error) {
      const reason = describeError(error);
      if (!isTold) log.warn("changes are noticed by polling", { reason });
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
