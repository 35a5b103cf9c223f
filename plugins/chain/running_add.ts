/**
 * ADD of a chain with plugins that are processes of their own.
 *
 * Whoever kills the chain, as a runtime does whose patience has ended, does not
 * kill them: such a plugin goes on, and what it makes after DEL has passed would
 * stay. So it holds a lock as long as it runs, and DEL waits for that.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import { deadline, pause } from "../../cni/invoke/deadline.ts";
import { ifPossible, removeQuietly } from "../../cni/io_failure.ts";
import type { Call } from "../../cni/plugin.ts";
import { isSameFile } from "../../cni/same_file.ts";
import { isErrno } from "../../ffi/errno.ts";
import { InheritedLock } from "../../ffi/inherited_lock.ts";
import { attachmentOf } from "../_shared/attachment.ts";
import { stableName } from "../_shared/stable_name.ts";

/** Where the locks are, if somebody was killed. */
const FOLDER = "/run/cni/chain";
/** How long one is waited for, and between two looks at it, in ms. */
const PATIENCE_MS = 30_000, PAUSE_MS = 20;

/** What is told apart: the attachment, and a chain in a chain from that around it. */
export type Running = Pick<Call, "network" | "args" | "log" | "signal"> & {
  /** The types of the chain's plugins. */
  readonly types: readonly string[];
  /** Where the locks are; /run/cni/chain if undefined. */
  readonly folder?: string;
};

function lockPathOf(running: Running): string {
  const { containerId, ifName, network } = attachmentOf(running);
  const { folder = FOLDER, types } = running;
  const name = stableName("", network, containerId, ifName, ...types);
  return join(folder, name);
}

/** An ADD that is under way, until disposal. */
export class RunningAdd implements Disposable {
  readonly #running: Running;
  #lock: InheritedLock | undefined;

  /** Nothing is locked before a process is to be started. */
  constructor(running: Running) {
    this.#running = running;
  }

  /**
   * Has the processes that are started from now on hold the lock. Where there
   * can be none they are started all the same.
   *
   * @throws {CniError} 11 if a process of an earlier ADD still runs
   */
  async begin(): Promise<void> {
    if (this.#lock !== undefined) return;
    const { log } = this.#running;
    const path = lockPathOf(this.#running);
    try {
      this.#lock = await waitForLock(this.#running, () => tryCreate(path));
    } catch (error) {
      log.warn("Going on without a lock", { error: describeError(error) });
      return;
    }
    if (this.#lock !== undefined) return;
    throw new CniError(
      ErrorCode.TryAgainLater,
      "Cannot add: a plugin that was started by an earlier ADD still runs",
    );
  }

  /** Ends the lock here, and with the last process. */
  [Symbol.dispose](): void {
    if (this.#lock === undefined) return;
    removeQuietly(lockPathOf(this.#running));
    this.#lock[Symbol.dispose]();
  }
}

/** Waits for processes that a killed ADD has left, but not for ever. */
export async function waitForAdd(running: Running): Promise<void> {
  const path = lockPathOf(running);
  // Hardly ever is there one.
  if (ifPossible(() => Deno.lstatSync(path)) === undefined) return;
  try {
    using lock = await waitForLock(
      running,
      () => InheritedLock.tryAcquire(path),
    );
    if (lock === undefined) {
      running.log.warn("Going on though a plugin of an earlier ADD still runs");
    }
    removeQuietly(path);
  } catch (error) {
    if (isErrno(error, "ENOENT")) return;
    running.log.warn("Going on without a lock", {
      error: describeError(error),
    });
  }
}

/** @returns Undefined if the lock cannot be had in time */
async function waitForLock(
  { signal }: Running,
  attempt: () => InheritedLock | undefined,
): Promise<InheritedLock | undefined> {
  const lock = attempt();
  if (lock !== undefined) return lock;
  const end = deadline(PATIENCE_MS, signal);
  while (!end.aborted) {
    await pause(PAUSE_MS, end);
    const later = attempt();
    if (later !== undefined) return later;
  }
  return undefined;
}

/** Locks a file, making it, unless others have it locked. */
function tryCreate(path: string): InheritedLock | undefined {
  for (;;) {
    Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    Deno.openSync(path, { create: true, write: true, mode: 0o600 }).close();
    try {
      using stack = new DisposableStack();
      const lock = InheritedLock.tryAcquire(path);
      if (lock === undefined) return undefined;
      stack.use(lock);
      // Who had it before may have removed it meanwhile.
      if (!isSameFile(path, lock.path)) continue;
      stack.move();
      return lock;
    } catch (error) {
      if (!isErrno(error, "ENOENT")) throw error;
    }
  }
}
