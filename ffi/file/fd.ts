/**
 * Owned file descriptors.
 *
 * @module
 */

import * as libc from "../libc.ts";
import { O_CLOEXEC, O_PATH } from "./open_flags.ts";

/** A file descriptor with one owner, closed when the owner disposes of it. */
export class Fd implements Disposable {
  #fd: number;

  /** Takes ownership of an open descriptor. */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /**
   * Opens a path, but not the file at it: opening a device can start it, and opening a
   * pipe can wait.
   *
   * @throws {SyscallError} From open(2)
   */
  static atPath(path: string): Fd {
    return new Fd(libc.open(path, O_PATH | O_CLOEXEC));
  }

  /**
   * The descriptor's number. It is valid until disposal.
   *
   * @throws {Error} If the descriptor is closed
   */
  get number(): number {
    if (this.#fd < 0) throw new Error("Cannot use a closed descriptor");
    return this.#fd;
  }

  /** A path that leads to the open file itself, even after a rename, until disposal. */
  get path(): string {
    return `/proc/thread-self/fd/${this.number}`;
  }

  /** Closes the descriptor; a second call does nothing. */
  [Symbol.dispose](): void {
    const fd = this.#release();
    if (fd >= 0) libc.close(fd);
  }

  /**
   * Closes the descriptor on another thread, if closing it takes long in the kernel;
   * a second call does nothing.
   */
  closeInBackground(): PromiseLike<unknown> | undefined {
    const fd = this.#release();
    return fd >= 0 ? libc.closeInBackground(fd) : undefined;
  }

  #release(): number {
    const fd = this.#fd;
    this.#fd = -1;
    return fd;
  }
}
