/**
 * The lock of a lease folder, also where nothing can be written.
 *
 * @module
 */

import { FileLock } from "../../cni/file_lock.ts";
import type { Log } from "../../cni/log.ts";
import { awaitUnlessMissing } from "./io_failure.ts";
import { type LeaseFolder, LOCK_FILE } from "./lease_folder.ts";

/** Source: containernetworking/plugins, by alexflint/go-filemutex. */
const LOCK_MODE = 0o750;

/** Keeps other programs from changing a lease folder, until disposal. */
export class FolderLock implements Disposable {
  readonly #file: FileLock | undefined;
  readonly #refusal: unknown;

  private constructor(file: FileLock | undefined, refusal?: unknown) {
    this.#file = file;
    this.#refusal = refusal;
  }

  /**
   * Waits for the lock, for who is going to write. Its file is created if need be.
   *
   * @param log Told who has the lock, if that takes long
   * @throws {Deno.errors.NotFound} If there is no folder
   * @throws {CniError} 11 if others keep the lock
   */
  static async acquire(folder: LeaseFolder, log?: Log): Promise<FolderLock> {
    const path = folder.pathOf(LOCK_FILE);
    return new FolderLock(await FileLock.acquire(path, LOCK_MODE, { log }));
  }

  /**
   * Waits for the lock, for who may have nothing to write. Where the file cannot
   * be opened for writing, as on a read-only file system, reading it will do.
   * Where it is missing as well, nothing is locked, and the folder may be looked
   * at: who cannot create a file there has no means to remove one either.
   *
   * @param log Told who has the lock, if that takes long
   * @throws {Deno.errors.NotFound} If there is no folder
   * @throws {CniError} 11 if others keep the lock
   */
  static async acquireToLook(
    folder: LeaseFolder,
    log?: Log,
  ): Promise<FolderLock> {
    try {
      return await FolderLock.acquire(folder, log);
    } catch (error) {
      if (!isWritingRefused(error)) throw error;
      const path = folder.pathOf(LOCK_FILE);
      const lock = FileLock.acquireExisting(path, { log });
      return new FolderLock(await awaitUnlessMissing(lock), error);
    }
  }

  /** Whether others are kept out. */
  get isHeld(): boolean {
    return this.#file !== undefined;
  }

  /**
   * Makes sure that others are kept out, before something is changed.
   *
   * @throws {Error} Why they are not
   */
  requireHeld(): void {
    if (!this.isHeld) throw this.#refusal;
  }

  /** Unlocks the folder. */
  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]();
  }
}

function isWritingRefused(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    // Deno has no class for it.
    error instanceof Error && Reflect.get(error, "code") === "EROFS";
}
