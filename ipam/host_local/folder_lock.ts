/**
 * The lock of a lease folder, also on read-only file systems.
 *
 * @module
 */

import { FileLock, type LockWait } from "../../cni/files/lock.ts";
import { isUnreachable } from "../../cni/files/io.ts";
import { type LeaseFolder, LOCK_FILE } from "./lease_folder.ts";

/** Source: containernetworking/plugins, by alexflint/go-filemutex. */
const LOCK_MODE = 0o750;

/** When to give up waiting, and where the lock's holder is logged. */
export type FolderWait = Pick<LockWait, "log" | "signal">;

/** Keeps other programs from changing a lease folder, until disposal. */
export class FolderLock implements Disposable {
  readonly #file: FileLock | undefined;
  readonly #refusal: unknown;

  private constructor(file: FileLock | undefined, refusal?: unknown) {
    this.#file = file;
    this.#refusal = refusal;
  }

  /**
   * Waits for the lock, to write. Creates its file if necessary.
   *
   * @throws {Deno.errors.NotFound} If the folder does not exist
   * @throws {CniError} 11 if others keep the lock
   */
  static async acquire(
    folder: LeaseFolder,
    wait?: FolderWait,
  ): Promise<FolderLock> {
    const path = folder.pathOf(LOCK_FILE);
    return new FolderLock(await FileLock.acquire(path, LOCK_MODE, wait));
  }

  /**
   * Waits for the lock, for a caller that may have nothing to write. If the
   * file cannot be opened for writing, as on a read-only file system, it is
   * opened for reading. If it does not exist either, nothing is locked, and the
   * folder may still be read: a caller that cannot create files there cannot
   * remove any.
   *
   * @throws {Deno.errors.NotFound} If the folder does not exist
   * @throws {CniError} 11 if others keep the lock
   */
  static async acquireToLook(
    folder: LeaseFolder,
    wait?: FolderWait,
  ): Promise<FolderLock> {
    try {
      return await FolderLock.acquire(folder, wait);
    } catch (error) {
      if (!isWritingRefused(error)) throw error;
      const path = folder.pathOf(LOCK_FILE);
      const lock = FileLock.acquireExisting(path, wait);
      return new FolderLock(await awaitUnlessUnreachable(lock), error);
    }
  }

  /** Whether the lock is held. */
  get isHeld(): boolean {
    return this.#file !== undefined;
  }

  /**
   * Checks that the lock is held, before a change.
   *
   * @throws {Error} The reason why it is not
   */
  requireHeld(): void {
    if (!this.isHeld) throw this.#refusal;
  }

  /** Unlocks the folder. */
  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]();
  }
}

/** Returns undefined if opening a file fails because its folder does not exist. */
export async function awaitUnlessUnreachable<T>(
  opening: Promise<T>,
): Promise<T | undefined> {
  try {
    return await opening;
  } catch (error) {
    if (isUnreachable(error)) return undefined;
    throw error;
  }
}

function isWritingRefused(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    // Deno has no error class for it.
    error instanceof Error && Reflect.get(error, "code") === "EROFS";
}
