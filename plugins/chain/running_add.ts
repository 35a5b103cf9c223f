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
import { deadline, pause } from "../../cni/deadline.ts";
import { ifPossible, removeQuietly } from "../../cni/io_failure.ts";
import type { Call } from "../../cni/plugin.ts";
import { isSameFile } from "../../cni/same_file.ts";
import { isErrno } from "../../ffi/errno.ts";
import { InheritedLock } from "../../ffi/inherited_lock.ts";
import { attachmentOf } from "../parts/attachment.ts";
import { stableName } from "../parts/stable_name.ts";

/** Where the locks are, if somebody was killed. */
const FOLDER = "/run/cni/chain";
/** How long one is waited for, and between two looks at it, in ms. */
const PATIENCE_MS = 20_000, PAUSE_MS = 20;
/** How often a lock is tried that is taken away again and again. */
const ATTEMPTS = 100;

/** The attachment that is told apart. */
export interface Running
  extends Pick<Call, "network" | "args" | "log" | "signal"> {
  /** Where the locks are; /run/cni/chain if undefined. */
  readonly folder?: string;
}

function lockPathOf(running: Running): string {
  const { containerId, ifName, network } = attachmentOf(running);
  const { folder = FOLDER } = running;
  return join(folder, stableName("", network, containerId, ifName));
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
    if (this.#lock === undefined) throw stillRuns("add");
  }

  /** Ends the lock here, and with the last process. */
  [Symbol.dispose](): void {
    if (this.#lock === undefined) return;
    removeOwn(lockPathOf(this.#running), this.#lock);
    this.#lock[Symbol.dispose]();
  }
}

function stillRuns(what: "add" | "delete"): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `Cannot ${what}: a plugin that an earlier ADD has started still runs`,
  );
}

/**
 * Waits for processes that a killed ADD has left, but not for ever: after that
 * what can be deleted is.
 *
 * @throws {CniError} 11 if the call's own time is up before
 */
export async function waitForAdd(running: Running): Promise<void> {
  const path = lockPathOf(running);
  // Hardly ever is there one.
  if (ifPossible(() => Deno.lstatSync(path)) === undefined) return;
  let lock: InheritedLock | undefined;
  try {
    lock = await waitForLock(running, () => tryLock(path));
  } catch (error) {
    const isGone = isErrno(error, "ENOENT");
    if (!isGone) {
      running.log.warn("Going on without a lock", {
        error: describeError(error),
      });
    }
    return;
  }
  if (lock !== undefined) {
    removeOwn(path, lock);
    return lock[Symbol.dispose]();
  }
  if (running.signal?.aborted) throw stillRuns("delete");
  running.log.warn("Going on though a plugin of an earlier ADD still runs");
}

/** Removes the file while it is locked, unless another one has its name by now. */
function removeOwn(path: string, lock: InheritedLock): void {
  if (isSameFile(path, lock.path)) removeQuietly(path);
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

/**
 * Locks the file that has the name, unless others have it locked.
 *
 * @throws {SyscallError} ENOENT
 */
function tryLock(path: string): InheritedLock | undefined {
  for (let count = 0; count < ATTEMPTS; count++) {
    using stack = new DisposableStack();
    const lock = InheritedLock.tryAcquire(path);
    if (lock === undefined) return undefined;
    stack.use(lock);
    // Who had it before may have removed it meanwhile.
    if (!isSameFile(path, lock.path)) continue;
    stack.move();
    return lock;
  }
  throw new Error(`Cannot lock "${path}": it is another file each time`);
}

/** Does the same with a file that need not be there. */
function tryCreate(path: string): InheritedLock | undefined {
  Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  for (let count = 0; count < ATTEMPTS; count++) {
    Deno.openSync(path, { create: true, write: true, mode: 0o600 }).close();
    try {
      return tryLock(path);
    } catch (error) {
      if (!isErrno(error, "ENOENT")) throw error;
    }
  }
  throw new Error(`Cannot lock "${path}": it is removed each time`);
}
