/**
 * ADD of a chain with plugins in processes of their own.
 *
 * If a runtime's time limit expires, it kills the chain, but not these
 * processes. Such a plugin continues, and would leave behind what it creates
 * after DEL. So it holds a lock while it runs, and DEL waits for that lock.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { JoinedSignal, pause } from "../../base/deadline.ts";
import { ifPossible, isTaken, removeQuietly } from "../../base/files/io.ts";
import type { Call } from "../../cni/plugin.ts";
import { describeHolders } from "../../base/files/lock_holders.ts";
import { isSameFile } from "../../base/files/same_file.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Fd } from "../../ffi/file/fd.ts";
import * as libc from "../../ffi/libc.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import type { Starter } from "../../cni/call/context.ts";
import { stableName } from "../parts/owner/stable_name.ts";

/** Directory of the locks. */
const DIRECTORY = "/run/cni/chain";
/** Time limit of a wait, and pause between two attempts, in ms. */
const LOCK_TIMEOUT_MS = 20_000, PAUSE_MS = 20;
/** Maximum number of attempts if the lock file is replaced each time. */
const ATTEMPTS = 100;

/** The attachment to lock. */
export interface Running
  extends Pick<Call, "network" | "args" | "log" | "signal"> {
  /** Directory of the locks; /run/cni/chain if undefined. */
  readonly directory?: string;
}

function lockPathOf(running: Running): string {
  const { containerId, ifName, network } = attachmentOf(running);
  const { directory = DIRECTORY } = running;
  return join(directory, stableName("", network, containerId, ifName));
}

/** An ADD in progress, until disposal. */
export class RunningAdd implements Disposable {
  readonly #running: Running;
  #lock: InheritedLock | undefined;

  /** Takes no lock until a process is about to start. */
  constructor(running: Running) {
    this.#running = running;
  }

  /**
   * Locks. If that is impossible, processes start without the lock.
   *
   * @returns What starts processes that hold the lock, too
   * @throws {CniError} 11 if a process of an earlier ADD still runs
   */
  async begin(): Promise<Starter | void> {
    if (this.#lock === undefined) await this.#acquire();
    const lock = this.#lock;
    if (lock !== undefined) return (start) => lock.share(start);
  }

  async #acquire(): Promise<void> {
    const { log } = this.#running;
    const path = lockPathOf(this.#running);
    try {
      this.#lock = await waitForLock(this.#running, () => tryCreate(path));
    } catch (error) {
      log.warn("Continuing without the lock", {
        path,
        error: describeError(error),
      });
      return;
    }
    if (this.#lock === undefined) throw stillRuns("add", path);
  }

  /**
   * Unlocks in this process; the lock is released when the last process exits.
   */
  [Symbol.dispose](): void {
    if (this.#lock === undefined) return;
    removeAndUnlock(lockPathOf(this.#running), this.#lock);
  }
}

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDWR = 2, O_CLOEXEC = 0o2000000;

/**
 * An exclusive flock(2) on a file, which chosen children share. It is released
 * when the holder and all of these children have exited or closed it.
 *
 * Source: flock(2), on descriptors of the same open file description.
 */
class InheritedLock implements Disposable {
  readonly #fd: Fd;

  private constructor(fd: Fd) {
    this.#fd = fd;
  }

  /**
   * Locks an existing file, without waiting.
   *
   * @returns Undefined if another process holds the lock
   * @throws {SyscallError} ENOENT, EACCES
   */
  static tryAcquire(path: string): InheritedLock | undefined {
    using stack = new DisposableStack();
    const fd = stack.use(new Fd(libc.open(path, O_RDWR | O_CLOEXEC)));
    if (!libc.tryLock(fd.number)) return undefined;
    stack.move();
    return new InheritedLock(fd);
  }

  /**
   * Starts a child that shares the lock.
   *
   * @param start Starts it before it returns: at any other time, children of
   *   other calls in this process would get the lock
   */
  share<T>(start: () => T): T {
    libc.setCloseOnExec(this.#fd.number, false);
    try {
      return start();
    } finally {
      libc.setCloseOnExec(this.#fd.number, true);
    }
  }

  /** A path that resolves to the file even if it was renamed. */
  get path(): string {
    return `/proc/self/fd/${this.#fd.number}`;
  }

  /** Closes this process's descriptor. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

function stillRuns(what: "add" | "delete", path: string): CniError {
  const file = ifPossible(() => Deno.statSync(path));
  return new CniError(
    ErrorCode.TryAgainLater,
    `Cannot ${what}: a plugin that an earlier ADD started is still running`,
    file && { details: `"${path}" is held by ${describeHolders(file)}` },
  );
}

/**
 * Waits for processes left by a killed ADD. After the time limit, DEL continues
 * and deletes as much as possible.
 *
 * @throws {CniError} 11 if the call's own time limit expires first
 */
export async function waitForAdd(running: Running): Promise<void> {
  const path = lockPathOf(running);
  // The common case: no lock file.
  if (!isTaken(path)) return;
  let lock: InheritedLock | undefined;
  try {
    lock = await waitForLock(running, () => tryLock(path));
  } catch (error) {
    const isGone = isErrno(error, "ENOENT");
    if (!isGone) {
      running.log.warn("Continuing without the lock", {
        path,
        error: describeError(error),
      });
    }
    return;
  }
  if (lock !== undefined) return removeAndUnlock(path, lock);
  if (running.signal?.aborted) throw stillRuns("delete", path);
  running.log.warn(
    "Continuing although a plugin of an earlier ADD is still running",
  );
}

/**
 * Removes the files that no process holds: of a process that was killed after
 * the container's last DEL.
 */
export function sweepLocks(directory: string = DIRECTORY): void {
  for (
    const { name } of ifPossible(() => [...Deno.readDirSync(directory)]) ?? []
  ) {
    const path = join(directory, name);
    ifPossible(() => {
      const lock = tryLock(path);
      if (lock !== undefined) removeAndUnlock(path, lock);
    });
  }
}

/**
 * Removes the file while it is locked, unless its name now belongs to another
 * file; then unlocks.
 */
function removeAndUnlock(path: string, lock: InheritedLock): void {
  using _lock = lock;
  if (isSameFile(path, lock.path)) removeQuietly(path);
}

/** @returns Undefined if the lock stays busy */
async function waitForLock(
  { signal }: Running,
  attempt: () => InheritedLock | undefined,
): Promise<InheritedLock | undefined> {
  const lock = attempt();
  if (lock !== undefined) return lock;
  using end = new JoinedSignal(LOCK_TIMEOUT_MS, signal);
  while (!end.signal.aborted) {
    await pause(PAUSE_MS, end.signal);
    const later = attempt();
    if (later !== undefined) return later;
  }
  return undefined;
}

/**
 * Locks the file with this name.
 *
 * @returns Undefined if another process holds the lock
 * @throws {SyscallError} ENOENT
 */
function tryLock(path: string): InheritedLock | undefined {
  for (let count = 0; count < ATTEMPTS; count++) {
    using stack = new DisposableStack();
    const lock = InheritedLock.tryAcquire(path);
    if (lock === undefined) return undefined;
    stack.use(lock);
    // The previous holder might have removed the file in between.
    if (!isSameFile(path, lock.path)) continue;
    stack.move();
    return lock;
  }
  throw new Error(`Cannot lock "${path}": it was replaced each time`);
}

/** Like {@linkcode tryLock}, but creates a missing file. */
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
  throw new Error(`Cannot lock "${path}": it was removed each time`);
}
