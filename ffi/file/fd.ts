/**
 * Owned file descriptors.
 *
 * @module
 */

import * as libc from "../libc.ts";

/** A file descriptor with one owner, closed when the owner disposes of it. */
export class Fd implements Disposable {
  #fd: number;

  /** Takes ownership of an open descriptor. */
  constructor(fd: number) {
    this.#fd = fd;
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
