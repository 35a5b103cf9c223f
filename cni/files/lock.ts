/**
 * Advisory locks on files, shared with other programs that use flock(2).
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import { deadline, waitUntil } from "../deadline.ts";
import { ifPossible } from "./io.ts";
import type { Log } from "../log.ts";

/** Time limit of a wait, and when to log it, in ms. */
const LIMIT_MS = 60_000, NOTICE_MS = 5000;

/** Options of a wait for a lock. */
export interface LockWait {
  /** The locked object's name in messages; the quoted path by default. */
  readonly what?: string;
  /** When to give up, in ms; 60 s by default. */
  readonly limitMs?: number;
  /** When to log the lock's holder, in ms; 5 s by default. */
  readonly noticeMs?: number;
  readonly log?: Log | undefined;
}

/** An exclusive flock(2), held until disposal. */
export class FileLock implements Disposable {
  readonly #file: Deno.FsFile;

  private constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /**
   * Opens `path`, creating it with `mode`, and waits for the lock on it.
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
    const file = Deno.openSync(path, { write: true, create: true, mode });
    return await FileLock.#lock(file, path, wait);
  }

  /**
   * Waits for the lock on an existing file, opened read-only.
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
   * Locks an existing file without waiting.
   *
   * @returns Undefined if the file is locked elsewhere
   * @throws {Deno.errors.NotFound} If the file does not exist
   */
  static tryExisting(path: string): FileLock | undefined {
    using stack = new DisposableStack();
    const file = stack.use(Deno.openSync(path));
    if (!file.tryLockSync(true)) return undefined;
    stack.move();
    return new FileLock(file);
  }

  static async #lock(
    file: Deno.FsFile,
    path: string,
    wait: LockWait,
  ): Promise<FileLock> {
    const lock = new FileLock(file);
    try {
      if (!file.tryLockSync(true)) await waitForLock(file, path, wait);
      return lock;
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
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

/**
 * Waits in the kernel's queue, on another thread. With polling, processes that
 * wait in the kernel would always come first. After the time limit the caller
 * closes the file, so that the thread cannot keep a lock that it gets later.
 */
async function waitForLock(
  file: Deno.FsFile,
  path: string,
  { what = `"${path}"`, limitMs = LIMIT_MS, noticeMs = NOTICE_MS, log }:
    LockWait,
): Promise<void> {
  const locked = file.lock(true).then(() => true);
  const isLockedAfter = (ms: number): Promise<boolean | undefined> =>
    waitUntil(locked, deadline(ms));
  if (noticeMs < limitMs) {
    if (await isLockedAfter(noticeMs)) return;
    log?.warn(`Waiting for the lock on ${what}`, {
      holder: describeHolders(file),
    });
  }
  if (await isLockedAfter(limitMs - Math.min(noticeMs, limitMs))) return;
  throw new CniError(ErrorCode.TryAgainLater, `Cannot lock ${what}`, {
    details: `after ${limitMs} ms it is still held by ${describeHolders(file)}`,
  });
}

/** Names the processes that hold a flock(2) on a file, as far as visible. */
function describeHolders(file: Deno.FsFile): string {
  const text = ifPossible(() => Deno.readTextFileSync("/proc/locks")) ?? "";
  const holders = findHolders(text, file.statSync()).map(describeProcess);
  return holders.join(", ") || "another process";
}

/**
 * Finds the process IDs that hold a flock(2) on a file. The kernel shows 0 for
 * processes of other PID namespaces.
 *
 * Source: proc_locks(5).
 *
 * @param text The content of `/proc/locks`
 */
export function findHolders(
  text: string,
  { dev, ino }: Pick<Deno.FileInfo, "dev" | "ino">,
): number[] {
  // Lines with an arrow belong to waiting processes.
  const line = /^\d+: FLOCK +\S+ +\S+ +(\d+) ([\da-f]+):([\da-f]+):(\d+) /gm;
  const locks = [...text.matchAll(line)]
    .filter(([, , , , inode]) => Number(inode) === ino);
  // Some file systems, such as Btrfs, have a different device number there.
  const exact = locks.filter(([, , major = "", minor = ""]) =>
    makeDevice(parseInt(major, 16), parseInt(minor, 16)) === dev
  );
  return (exact.length > 0 ? exact : locks).map(([, pid]) => Number(pid));
}

/** Source: include/linux/kdev_t.h `new_encode_dev`. */
function makeDevice(major: number, minor: number): number {
  return (minor & 0xff) + major * 0x100 + (minor & ~0xff) * 0x1000;
}

function describeProcess(pid: number): string {
  if (pid === 0) return "a process of another PID namespace";
  const name = ifPossible(() => Deno.readTextFileSync(`/proc/${pid}/comm`));
  return name === undefined
    ? `process ${pid}`
    : `process ${pid} (${name.trim()})`;
}
