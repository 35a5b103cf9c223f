/**
 * Waits for many descriptors together, on another thread.
 *
 * This can be asynchronous, although the waiting thread is in no particular
 * namespace, because epoll_wait(2) depends on descriptors only.
 *
 * @module
 */

import { Fd } from "./file/fd.ts";
import * as libc from "./libc.ts";

/** Source: include/uapi/linux/eventpoll.h. */
const EPOLL_CLOEXEC = 0o2000000,
  EPOLL_CTL_ADD = 1,
  EPOLL_CTL_DEL = 2,
  EPOLL_CTL_MOD = 3;

/** Events. Errors and hang-ups are always reported. */
export const EPOLLIN = 1, EPOLLOUT = 4;

/**
 * Number of words of a `struct epoll_event`, which is packed on x86-64 only: the
 * events, then the data, whose first word is the descriptor.
 *
 * Source: include/uapi/linux/eventpoll.h.
 */
const EVENT_WORDS = Deno.build.arch === "x86_64" ? 3 : 4;
const DATA_WORD = EVENT_WORDS - 2;

/** Most events that an epoll_wait(2) returns. */
const BATCH = 64;

const SYMBOLS = {
  epoll_wait: {
    parameters: ["i32", "buffer", "i32", "i32"],
    result: "i32",
    nonblocking: true,
  },
} as const;

/** An event of a descriptor. */
export interface Event {
  readonly fd: number;
  /** A sum of {@linkcode EPOLLIN}, {@linkcode EPOLLOUT} and further events. */
  readonly events: number;
}

/** A set of descriptors to wait for. Each event is reported until it is handled. */
export class Epoll implements Disposable {
  readonly #fd = new Fd(libc.createEpoll(EPOLL_CLOEXEC));
  readonly #library = Deno.dlopen("libc.so.6", SYMBOLS);

  /** Adds a descriptor, with the events to wait for. */
  add(fd: number, events: number): void {
    this.#control(EPOLL_CTL_ADD, { fd, events });
  }

  /** Changes the events of a descriptor. */
  change(fd: number, events: number): void {
    this.#control(EPOLL_CTL_MOD, { fd, events });
  }

  /** Removes a descriptor. */
  remove(fd: number): void {
    this.#control(EPOLL_CTL_DEL, { fd, events: 0 });
  }

  #control(operation: number, { fd, events }: Event): void {
    const words = new Uint32Array(EVENT_WORDS);
    words[0] = events;
    words[DATA_WORD] = fd;
    const event = new Uint8Array(words.buffer);
    libc.controlEpoll(this.#fd.number, operation, { fd, event });
  }

  /** Waits for events. A signal can make it return no events. */
  async wait(): Promise<Event[]> {
    const words = new Uint32Array(EVENT_WORDS * BATCH);
    const bytes = new Uint8Array(words.buffer);
    const { epoll_wait } = this.#library.symbols;
    const count = await epoll_wait(this.#fd.number, bytes, BATCH, -1);
    return Array.from({ length: Math.max(count, 0) }, (_, index) => ({
      events: words[index * EVENT_WORDS] ?? 0,
      fd: words[index * EVENT_WORDS + DATA_WORD] ?? -1,
    }));
  }

  /** Closes the set. No wait may be running. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
    this.#library.close();
  }
}
