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
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
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
    if (file.tryLockSync(true)) return new FileLock(file);
    return new FileLock(await waitForLock(file, path, wait));
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
 * Waits until a file is locked.
 *
 * @param file Closed if it is not the one that is returned
 * @returns The same file, locked, maybe opened by somebody else who waited
 */
async function waitForLock(
  file: Deno.FsFile,
  path: string,
  wait: LockWait,
): Promise<Deno.FsFile> {
  const { limitMs = LIMIT_MS, noticeMs = NOTICE_MS, log, signal } = wait;
  const { what = `"${path}"` } = wait;
  const startMs = performance.now();
  const queue = joinQueue(file);
  const lockedAfter = (ms: number): Promise<Deno.FsFile | undefined> =>
    waitUntil(queue.locked, deadline(ms, signal));
  if (noticeMs < limitMs) {
    const locked = await lockedAfter(noticeMs);
    if (locked !== undefined) return locked;
    log?.warn(`Waiting for the lock on ${what}`, {
      holder: describeHolders(file),
    });
  }
  const locked = await lockedAfter(limitMs - Math.min(noticeMs, limitMs));
  if (locked !== undefined) return locked;
  const holders = describeHolders(file);
  queue.leave();
  const ms = signal?.aborted
    ? Math.round(performance.now() - startMs)
    : limitMs;
  throw new CniError(ErrorCode.TryAgainLater, `Cannot lock ${what}`, {
    details: `after ${ms} ms it is still held by ${holders}`,
  });
}

/** A place in a queue for a lock. */
interface Place {
  readonly locked: Promise<Deno.FsFile>;
  /** Gives the place up. */
  leave(): void;
}

/** Somebody who waits for a lock. */
interface Waiter extends PromiseWithResolvers<Deno.FsFile> {
  readonly file: Deno.FsFile;
}

/** Those who wait in this process for a lock, first come first. */
interface Queue {
  readonly waiters: Waiter[];
  /** The descriptor for which a thread waits in the kernel. */
  file: Deno.FsFile;
}

/** By device and inode. */
const queues = new Map<string, Queue>();

/**
 * Queues up for a locked file. For each file only one thread waits in the
 * kernel's queue: with polling, processes that wait in the kernel would always
 * come first. That thread's wait cannot be ended. If it gets the lock and nobody
 * wants it any more, it is released at once.
 */
function joinQueue(file: Deno.FsFile): Place {
  const { dev, ino } = file.statSync();
  const id = `${dev}:${ino}`;
  const waiter = { file, ...Promise.withResolvers<Deno.FsFile>() };
  const queue = queues.get(id) ?? startQueue(id, file);
  queue.waiters.push(waiter);
  return {
    locked: waiter.promise,
    leave(): void {
      const at = queue.waiters.indexOf(waiter);
      // -1: it got the lock at the last moment.
      if (at === -1) {
        return void waiter.promise.then((locked) => locked.close());
      }
      queue.waiters.splice(at, 1);
      if (queue.file !== file) file.close();
    },
  };
}

function startQueue(id: string, file: Deno.FsFile): Queue {
  const queue: Queue = { waiters: [], file };
  queues.set(id, queue);
  serve(id, queue);
  return queue;
}

async function serve(id: string, queue: Queue): Promise<void> {
  while (queues.get(id) === queue) {
    const { file } = queue;
    const failure = await file.lock(true).then(() => undefined, asFailure);
    const first = queue.waiters.shift();
    const [next] = queue.waiters;
    if (next === undefined) queues.delete(id);
    else queue.file = next.file;
    if (failure !== undefined || first === undefined) file.close();
    if (first !== undefined && first.file !== file) first.file.close();
    if (failure === undefined) first?.resolve(file);
    else first?.reject(failure.error);
  }
}

function asFailure(error: unknown): { error: unknown } {
  return { error };
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
