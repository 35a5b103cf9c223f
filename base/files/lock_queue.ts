/**
 * The tasks of this process that wait for locks.
 *
 * A wait in the kernel's queue for a lock blocks a thread, and Deno has only 32 for
 * blocking work. So of the tasks that wait for one file, only the first is in the
 * kernel's queue. The others wait behind it in memory. With polling instead,
 * processes that wait in the kernel would always come first.
 *
 * @module
 */

import { fileIdOf } from "./same_file.ts";
import { pause, waitUntil } from "../deadline.ts";

/** Limit of threads that wait in the kernel's queues at the same time. */
const MAX_THREADS = 8;

/** Pause between two attempts without a thread, in ms. */
const PAUSE_MS = 20;

/** A task that waits. */
interface Waiter {
  readonly file: Deno.FsFile;
  /** Receives a locked file: its own, or the file of a task that gave up. */
  readonly resolve: (locked: Deno.FsFile) => void;
  readonly reject: (error: unknown) => void;
}

/** The tasks that wait for one file, in order of arrival. */
interface LockQueue {
  readonly waiters: Waiter[];
  /** The file in the kernel's queue. */
  first?: Deno.FsFile;
  /** How many tasks have had the lock. */
  turns: number;
}

/** The queues, by device and inode. */
const queues = new Map<string, LockQueue>();

/** How many threads wait. */
let threads = 0;

/** Reports whether a task of this process waits for the lock on a file. It comes first. */
export function isAwaited(file: Deno.FsFile): boolean {
  return queues.size > 0 && queues.has(fileIdOf(file.statSync()));
}

/** Counts the tasks of this process that had the lock while others waited. */
export function countTurns(info: Deno.FileInfo): number {
  return queues.get(fileIdOf(info))?.turns ?? 0;
}

/**
 * Waits for an exclusive lock. Tasks that wait for the same file get it in order.
 *
 * @param file Open; it will be closed unless it is returned
 * @returns The locked file, which another task may have opened; undefined if the
 *   signal came first
 */
export async function lockInTurn(
  file: Deno.FsFile,
  info: Deno.FileInfo,
  signal: AbortSignal,
): Promise<Deno.FsFile | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Deno.FsFile>();
  const waiter = { file, resolve, reject };
  const key = fileIdOf(info);
  const queue = queues.get(key) ?? { waiters: [], turns: 0 };
  queue.waiters.push(waiter);
  if (!queues.has(key)) serve(key, queue);
  const locked = await waitUntil(promise, signal);
  if (locked !== undefined) return locked;
  const place = queue.waiters.indexOf(waiter);
  // Its turn came together with the signal.
  if (place === -1) return await promise;
  queue.waiters.splice(place, 1);
  // A thread in the kernel's queue cannot be called back: the next task gets the
  // lock that it waits for.
  if (queue.first !== file) file.close();
  return undefined;
}

/** Locks the file for one task after the other, until no task waits. */
async function serve(key: string, queue: LockQueue): Promise<void> {
  queues.set(key, queue);
  const { waiters } = queue;
  for (let first = waiters[0]; first !== undefined; first = waiters[0]) {
    const { file } = first;
    queue.first = file;
    const outcome = await tryLock(file, () => waiters.length > 0);
    delete queue.first;
    const next = outcome === false ? undefined : waiters.shift();
    if (next === undefined || outcome !== true) file.close();
    if (next === undefined) continue;
    if (next.file !== file) next.file.close();
    queue.turns++;
    if (outcome === true) next.resolve(file);
    else next.reject(outcome);
  }
  queues.delete(key);
}

/**
 * Locks a file, on a thread if possible.
 *
 * @returns True; false if it is no longer wanted; the error if it cannot be locked
 */
async function tryLock(
  file: Deno.FsFile,
  isWanted: () => boolean,
): Promise<unknown> {
  const isOnThread = threads < MAX_THREADS;
  threads += Number(isOnThread);
  try {
    if (isOnThread) await file.lock(true);
    while (!isOnThread && !file.tryLockSync(true)) {
      if (!isWanted()) return false;
      await pause(PAUSE_MS);
    }
    return true;
  } catch (error) {
    return error;
  } finally {
    threads -= Number(isOnThread);
  }
}
