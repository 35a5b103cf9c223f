/**
 * Locks that a process shares with its children.
 *
 * @module
 */

import { Fd } from "./fd.ts";
import * as libc from "../libc.ts";

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDWR = 2, O_CLOEXEC = 0o2000000;

/**
 * An exclusive flock(2) on a file, which chosen children share. It is released
 * when the holder and all of these children have exited or closed it.
 *
 * Source: flock(2), on descriptors of the same open file description.
 */
export class InheritedLock implements Disposable {
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
