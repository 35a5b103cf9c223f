/**
 * Advisory locks on files, shared with other programs that use flock(2).
 *
 * @module
 */

import { SyscallError } from "./errno.ts";

/** Source: include/uapi/asm-generic/errno-base.h. */
const EAGAIN = 11;
/** Between two looks at a lock that somebody else has. */
const PAUSE_MS = 5;

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
   */
  static acquire(path: string, mode: number): FileLock {
    const file = Deno.openSync(path, { write: true, create: true, mode });
    return FileLock.#holding(file, () => file.lockSync(true));
  }

  /**
   * Locks a file that is there, which is neither created nor opened for
   * writing, and waits for those who have the lock. This thread does nothing
   * else meanwhile.
   *
   * @param timeoutMs How long to wait; as long as it takes if undefined
   * @throws {Deno.errors.NotFound} If there is no such file
   * @throws {SyscallError} EAGAIN if others still have the lock then
   */
  static acquireExisting(path: string, timeoutMs?: number): FileLock {
    const file = Deno.openSync(path);
    if (timeoutMs === undefined) {
      return FileLock.#holding(file, () => file.lockSync(true));
    }
    const deadline = performance.now() + timeoutMs;
    return FileLock.#holding(file, () => {
      while (!file.tryLockSync(true)) {
        if (performance.now() >= deadline) {
          throw new SyscallError("flock", EAGAIN, `after ${timeoutMs} ms`);
        }
        pause(PAUSE_MS);
      }
    });
  }

  /** Closes the file again unless it can be locked. */
  static #holding(file: Deno.FsFile, lock: () => void): FileLock {
    try {
      lock();
      return new FileLock(file);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Gives the lock up by closing the file; a second call does nothing. */
  [Symbol.dispose](): void {
    try {
      this.#file.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** Stops this thread for a while. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
