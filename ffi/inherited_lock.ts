/**
 * Locks that the children of a process hold as well.
 *
 * @module
 */

import { Fd } from "./fd.ts";
import * as libc from "./libc.ts";

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDWR = 2;

/**
 * An exclusive flock(2) on a file. Children that are started after this share
 * it: it ends when they and the holder have all ended, or closed it.
 *
 * Source: flock(2), of descriptors that refer to one open file description.
 */
export class InheritedLock implements Disposable {
  readonly #fd: Fd;

  private constructor(fd: Fd) {
    this.#fd = fd;
  }

  /**
   * Locks a file that is there, without waiting.
   *
   * @returns Undefined if others have it locked
   * @throws {SyscallError} ENOENT, EACCES
   */
  static tryAcquire(path: string): InheritedLock | undefined {
    using stack = new DisposableStack();
    // Without O_CLOEXEC: that is how children come by it.
    const fd = stack.use(new Fd(libc.open(path, O_RDWR)));
    if (!libc.tryLock(fd.number)) return undefined;
    stack.move();
    return new InheritedLock(fd);
  }

  /** A path that leads to the file, whatever its name is by now. */
  get path(): string {
    return `/proc/self/fd/${this.#fd.number}`;
  }

  /** Closes the file here. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}
