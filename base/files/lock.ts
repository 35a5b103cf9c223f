/**
 * Advisory locks on files, shared with other programs that use flock(2).
 *
 * @module
 */

import { formatAbort, JoinedSignal, waitUntil } from "../deadline.ts";
import { CniError, describeError, ErrorCode } from "../error.ts";
import type { Log } from "../log/log.ts";
import { isWritingRefused, unlessMissing, writeAll } from "./io.ts";
import { describeHolders, HoldLimit } from "./lock_holders.ts";
import { yieldIfLong } from "../long_wait.ts";
import { countTurns, isAwaited, lockInTurn } from "./lock_queue.ts";

/**
 * The longest time for which a process can hold a contended lock, and the time after
 * which its holder is logged, in ms.
 */
const LIMIT_MS = 60_000, NOTICE_MS = 5000;
/**
 * Time limit of a wait during which different processes get the lock, in ms: below
 * the two minutes after which runtimes abort a call.
 */
const TOTAL_MS = 110_000;
/** The shortest time between two checks, in ms. */
const CHECK_MS = 100;

/** Options of a wait for a lock. */
export interface LockWait {
  /** The locked object's name in messages; the quoted path by default. */
  readonly what?: string;
  /**
   * When to give up because the same process holds the lock, in ms; 60 s by default.
   * A caller that waits for several holders in turn gives up after 110 s. With
   * Infinity, it never gives up, and no timer runs once the holder is logged.
   */
  readonly limitMs?: number;
  /** Aborts the wait earlier. */
  readonly signal?: AbortSignal | undefined;
  /**
   * When to log the lock's holder, and the interval of further checks, in ms; 5 s by
   * default.
   */
  readonly noticeMs?: number;
  readonly log?: Log | undefined;
}

/** Options of a lock that is taken immediately or not at all. */
export interface LockTry {
  /** Whether to take a shared lock; false by default. */
  readonly shared?: boolean;
  /** Whether to create the file, with mode 0600; true by default. */
  readonly create?: boolean;
}

/** A flock(2) on a file, held until disposal. */
export class FileLock implements Disposable {
  readonly #file: Deno.FsFile;
  /** The file's path. */
  readonly path: string;

  private constructor(file: Deno.FsFile, path: string) {
    this.#file = file;
    this.path = path;
  }

  /**
   * Opens `path`, creating it with `mode`, and waits for the exclusive lock on it.
   * Tasks of this process get the lock in order of arrival.
   *
   * @param mode Permission bits of a new file
   * @throws {Deno.errors.NotFound} If the directory does not exist
   * @throws {CniError} 11 if the lock is not released; the details name its
   *   holders: process IDs, programs, and whether they are stopped
   */
  static async acquire(
    path: string,
    mode: number,
    wait: LockWait = {},
  ): Promise<FileLock> {
    // If the file is opened only for writing, open(2) of a pipe waits for a reader.
    const options = { read: true, write: true, create: true, mode };
    const file = Deno.openSync(path, options);
    return await FileLock.#lock(file, path, wait);
  }

  /**
   * Waits for the exclusive lock on an existing file, opened read-only.
   *
   * @throws {Deno.errors.NotFound} If the file does not exist
   * @throws {CniError} 11 if the lock is not released; the details name its
   *   holders
   */
  static async acquireExisting(
    path: string,
    wait: LockWait = {},
  ): Promise<FileLock> {
    return await FileLock.#lock(Deno.openSync(path), path, wait);
  }

  /**
   * Like {@linkcode FileLock.acquire}, with mode 0600, for a file that its holders
   * remove with {@linkcode FileLock.remove}.
   *
   * @throws {Deno.errors.NotFound} If the directory does not exist
   * @throws {CniError} 11 if the lock is not released; the details name its
   *   holders
   */
  static async acquireTemporary(
    path: string,
    wait: LockWait = {},
  ): Promise<FileLock> {
    for (;;) {
      const lock = await FileLock.acquire(path, 0o600, wait);
      if (isAt(lock.#file, path)) return lock;
      lock[Symbol.dispose]();
    }
  }

  /**
   * Locks a file without waiting, even if the last holder has removed or renamed it.
   *
   * @returns Undefined if the file is locked elsewhere
   * @throws {Deno.errors.NotFound} If the directory does not exist, or the file,
   * unless this creates it
   */
  static tryAcquire(
    path: string,
    { shared = false, create = true }: LockTry = {},
  ): FileLock | undefined {
    const options = { read: true, write: create, create, mode: 0o600 };
    for (;;) {
      using stack = new DisposableStack();
      const file = stack.use(Deno.openSync(path, options));
      if (!file.tryLockSync(!shared)) return undefined;
      if (!isAt(file, path)) continue;
      stack.move();
      return new FileLock(file, path);
    }
  }

  static async #lock(
    file: Deno.FsFile,
    path: string,
    wait: LockWait,
  ): Promise<FileLock> {
    const isFree = !isAwaited(file) && tryLock(file);
    const locked = isFree
      ? file
      : await yieldIfLong(() => waitForLock(file, path, wait));
    return new FileLock(locked, path);
  }

  /** Replaces the content. */
  write(bytes: Uint8Array): void {
    // ext4 writes a file that was truncated, even from 0 bytes, to the disk when it
    // is closed.
    if (this.#file.seekSync(0, Deno.SeekMode.End) > 0) {
      this.#file.truncateSync();
      this.#file.seekSync(0, Deno.SeekMode.Start);
    }
    writeAll(this.#file, bytes);
  }

  /** Writes the content to the disk. */
  sync(): void {
    this.#file.syncDataSync();
  }

  /** Removes the file if possible, and unlocks it. */
  remove(): void {
    try {
      // This must precede unlocking. Otherwise, the next holder would lose its file.
      Deno.removeSync(this.path);
    } catch {
      // The file stays and will be reused.
    } finally {
      this[Symbol.dispose]();
    }
  }

  /** Releases the lock by closing the file. A second call does nothing. */
  [Symbol.dispose](): void {
    try {
      this.#file.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** Locks a file if it is unlocked; closes it if it cannot be locked at all. */
function tryLock(file: Deno.FsFile): boolean {
  try {
    return file.tryLockSync(true);
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Reports whether a path resolves to an open file. */
function isAt(file: Deno.FsFile, path: string): boolean {
  const named = unlessMissing(() => Deno.statSync(path));
  const open = file.statSync();
  return named?.ino === open.ino && named.dev === open.dev;
}

/**
 * Waits for a lock, on another thread. The lock is never taken away from a process
 * that holds it for long, because it might be stopped and continue later.
 *
 * @param file Open; it is closed unless it is returned
 * @throws {CniError} 11 at the time limit or the signal
 */
async function waitForLock(
  file: Deno.FsFile,
  path: string,
  { what = `"${path}"`, limitMs = LIMIT_MS, noticeMs = NOTICE_MS, ...wait }:
    LockWait,
): Promise<Deno.FsFile> {
  const { signal, log } = wait;
  const info = file.statSync();
  const totalMs = Math.max(limitMs, TOTAL_MS);
  const stuck = new AbortController();
  using end = new JoinedSignal(totalMs, signal, stuck.signal);
  const locking = lockInTurn(file, info, end.signal);
  const isOver = locking.then(() => true);
  const holdLimit = new HoldLimit(limitMs);
  let checkMs = Math.min(noticeMs, limitMs), isFirst = true;
  while (!await endsWithin(checkMs, isOver, end.signal)) {
    const holder = describeHolders(info);
    if (isFirst && checkMs < limitMs) {
      log?.warn(`Waiting for the lock on ${what}`, { holder });
    }
    isFirst = false;
    holdLimit.record(`${holder} ${countTurns(info)}`, checkMs);
    if (holdLimit.leftMs <= 0) stuck.abort();
    checkMs = limitMs === Infinity
      ? Infinity
      : Math.min(Math.max(noticeMs, CHECK_MS), holdLimit.leftMs);
  }
  const locked = await locking;
  if (locked !== undefined) return locked;
  const afterMs = stuck.signal.aborted ? limitMs : totalMs;
  const when = signal?.aborted
    ? `${formatAbort(signal)}:`
    : `after ${afterMs} ms`;
  const isNamed = what.includes(path) || path.startsWith("/proc/");
  const held = isNamed ? "it" : `"${path}"`;
  throw new CniError(ErrorCode.TryAgainLater, `Cannot lock ${what}`, {
    details: `${when} ${held} is still held by ${describeHolders(info)}`,
  });
}

/** Waits for a time in milliseconds. @returns Whether the wait ended earlier */
async function endsWithin(
  ms: number,
  isOver: Promise<boolean>,
  end: AbortSignal,
): Promise<boolean> {
  using look = new JoinedSignal(ms, end);
  return await waitUntil(isOver, look.signal) ?? end.aborted;
}

/** Reads a file if it is exclusively locked; returns "" if it is not. */
export function readIfLocked(path: string): string {
  try {
    using file = Deno.openSync(path);
    return file.tryLockSync(false) ? "" : Deno.readTextFileSync(path);
  } catch {
    return ""; // The file was deleted, and its lock with it.
  }
}

/**
 * Directory of private locks. A file exists while its lock is held, or after its
 * holder was killed.
 */
export const PRIVATE_LOCKS = "/run/cni/locks";

/**
 * Waits for a lock on an object of the node, which only root can hold. A flock(2)
 * needs only read permission, so any user could lock a network namespace or a
 * world-readable directory, and keep the lock. Instead, this locks a file that only
 * root can open, in a directory that only root can enter.
 *
 * If the lock cannot be created, the caller continues without it. This is usual for
 * ordinary users, who are not permitted to write to `/run`; any other reason, such as
 * a full disk, is logged as a warning.
 *
 * @param name The file's name, which identifies the object
 * @param directory /run/cni/locks by default
 * @throws {CniError} 11 if the lock is not released; the details name its holders
 */
export async function lockPrivately(
  name: string,
  wait: LockWait,
  directory: string = PRIVATE_LOCKS,
): Promise<Disposable> {
  const path = `${directory}/${name}`;
  const acquire = (): Promise<FileLock> =>
    FileLock.acquireTemporary(path, wait);
  try {
    const lock = await acquire().catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      // The first lock since the machine booted.
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      return acquire();
    });
    return { [Symbol.dispose]: () => lock.remove() };
  } catch (error) {
    if (error instanceof CniError) throw error;
    // An ordinary user, or a node whose /run is read-only.
    wait.log?.[isWritingRefused(error) ? "debug" : "warn"](
      "Continuing without the lock",
      {
        path,
        error: describeError(error),
      },
    );
    return { [Symbol.dispose]: () => {} };
  }
}
