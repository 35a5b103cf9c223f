/**
 * Handlers of descriptors, and the loop that runs them.
 *
 * @module
 */

import { noteYield } from "../deadline.ts";
import { Epoll, EPOLLIN } from "../../ffi/epoll.ts";

/** Runs the handlers of descriptors on which an event occurred. */
export class Events implements Disposable {
  readonly #epoll = new Epoll();
  readonly #handlers = new Map<number, (events: number) => void>();

  /** The number of descriptors. */
  get size(): number {
    return this.#handlers.size;
  }

  /** Calls a handler whenever data can be received. */
  add(fd: number, handler: (events: number) => void): void {
    this.#epoll.add(fd, EPOLLIN);
    this.#handlers.set(fd, handler);
  }

  /** Changes the events of a descriptor. */
  change(fd: number, events: number): void {
    this.#epoll.change(fd, events);
  }

  /** Removes a descriptor, which must still be open. */
  remove(fd: number): void {
    this.#handlers.delete(fd);
    this.#epoll.remove(fd);
  }

  /** Waits once for events, and handles them. */
  async handle(): Promise<void> {
    const events = await this.#epoll.wait();
    noteYield();
    // Looked up first, because a handler can close a descriptor, after which a
    // different handler can open a descriptor with the same number.
    const ready = events.map(({ fd, events }) => {
      return { fd, events, handler: this.#handlers.get(fd) };
    });
    for (const { fd, events, handler } of ready) {
      if (this.#handlers.get(fd) === handler) handler?.(events);
    }
  }

  /** Closes it. No wait may be running. */
  [Symbol.dispose](): void {
    this.#epoll[Symbol.dispose]();
  }
}
