/**
 * The tasks of this process that are waiting for locks.
 *
 * A wait in the kernel's queue for a lock blocks a thread, and Deno has only 32
 * threads for blocking work. So only the first of the tasks that wait for a file is
 * in the kernel's queue. The remaining tasks wait behind it in memory. With polling,
 * processes in the kernel's queue would always precede them.
 *
 * @module
 */

import { fileIdOf } from "./same_file.ts";
import { pause, waitUntil } from "../deadline.ts";

/** The most threads that wait in the kernel's queues at the same time. */
const MAX_THREADS = 8;

/** Pause between two attempts without a thread, in ms. */
const PAUSE_MS = 20;

/** A waiting task. */
interface Waiter {
  readonly file: Deno.FsFile;
  /** Receives a locked file: its own, or the file of a task that gave up. */
  readonly resolve: (locked: Deno.FsFile) => void;
  readonly reject: (error: unknown) => void;
}

/** The tasks that wait for a file, in order of arrival. */
interface LockQueue {
  readonly waiters: Waiter[];
  /** The file in the kernel's queue. */
  first?: Deno.FsFile;
  /** How many tasks have held the lock. */
  turns: number;
}

/** The queues, by device and inode. */
const queues = new Map<string, LockQueue>();

/** How many threads are waiting. */
let threads = 0;

/**
 * Reports whether a task of this process waits for the lock on a file. It has
 * precedence.
 */
export function isAwaited(file: Deno.FsFile): boolean {
  return queues.size > 0 && queues.has(fileIdOf(file.statSync()));
}

/** Counts the tasks of this process that held the lock while other tasks waited. */
export function countTurns(info: Deno.FileInfo): number {
  return queues.get(fileIdOf(info))?.turns ?? 0;
}

/**
 * Waits for an exclusive lock. Tasks that wait for the same file get it in order.
 *
 * @param file Open; it is closed unless it is returned
 * @returns The locked file, which a different task might have opened; undefined if
 * the signal came first
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
  // The lock was acquired at the same time as the signal.
  if (place === -1) return await promise;
  queue.waiters.splice(place, 1);
  // A thread in the kernel's queue cannot be recalled, so the next task gets its
  // lock.
  if (queue.first !== file) file.close();
  return undefined;
}

/** Locks the file for each task in turn, until no task waits. */
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
 * @returns True; false if no task needs the lock; the error if the file cannot be
 * locked
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
