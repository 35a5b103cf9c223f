/**
 * Advisory locks on files, shared with other programs that use flock(2).
 *
 * @module
 */

import { deadline, formatAbort, JoinedSignal, waitUntil } from "../deadline.ts";
import { CniError, ErrorCode } from "../error.ts";
import type { Log } from "../log.ts";
import { unlessMissing, writeAll } from "./io.ts";
import { isAnyWaiting, lockInTurn } from "./lock_queue.ts";

/** Time limit of a wait, and when to log it, in ms. */
const LIMIT_MS = 60_000, NOTICE_MS = 5000;

/** Options of a wait for a lock. */
export interface LockWait {
  /** The locked object's name in messages; the quoted path by default. */
  readonly what?: string;
  /** When to give up, in ms; 60 s by default. */
  readonly limitMs?: number;
  /** Gives up earlier. */
  readonly signal?: AbortSignal | undefined;
  /** When to log the lock's holder, in ms; 5 s by default. */
  readonly noticeMs?: number;
  readonly log?: Log | undefined;
}

/** Options of a lock that is taken at once or not at all. */
export interface LockTry {
  /** Whether others may hold the lock as well; false by default. */
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
   * @throws {Deno.errors.NotFound} If the folder does not exist
   * @throws {CniError} 11 if the lock is not released; the details name its
   *   holders
   */
  static async acquire(
    path: string,
    mode: number,
    wait: LockWait = {},
  ): Promise<FileLock> {
    // Writing alone, the open(2) of a pipe waits for a reader.
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
   * Locks a file without waiting, even if the last holder has removed or renamed it
   * meanwhile.
   *
   * @returns Undefined if the file is locked elsewhere
   * @throws {Deno.errors.NotFound} If the folder does not exist, or the file,
   *   unless it may be created
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
    const isFree = !isAnyWaiting() && tryLock(file);
    const locked = isFree ? file : await waitForLock(file, path, wait);
    return new FileLock(locked, path);
  }

  /** Replaces the content. */
  write(bytes: Uint8Array): void {
    // A file that was truncated, even from 0 bytes, is written to the disk by
    // ext4 when it is closed.
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
      // Must happen before unlocking, or the next holder would lose its file.
      Deno.removeSync(this.path);
    } catch {
      // It stays and will be reused.
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

/** Locks a file if it is free; closes it if it cannot be locked at all. */
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
 * Waits for a lock, on another thread.
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
  using end = new JoinedSignal(deadline(limitMs), signal);
  const locking = lockInTurn(file, info, end.signal);
  const nameHolders = async (): Promise<string> => {
    const { describeHolders } = await import("./lock_holders.ts");
    return describeHolders(info);
  };
  if (noticeMs < limitMs) {
    const isOver = locking.then(() => true);
    if (!await waitUntil(isOver, deadline(noticeMs))) {
      log?.warn(`Waiting for the lock on ${what}`, {
        holder: await nameHolders(),
      });
    }
  }
  const locked = await locking;
  if (locked !== undefined) return locked;
  const when = signal?.aborted
    ? `${formatAbort(signal)}:`
    : `after ${limitMs} ms`;
  throw new CniError(ErrorCode.TryAgainLater, `Cannot lock ${what}`, {
    details: `${when} it is still held by ${await nameHolders()}`,
  });
}

/** Reads a file if it is exclusively locked; returns "" if it is not. */
export function readIfLocked(path: string): string {
  try {
    using file = Deno.openSync(path);
    return file.tryLockSync(false) ? "" : Deno.readTextFileSync(path);
  } catch {
    return ""; // The file is gone, so its lock is too.
  }
}
