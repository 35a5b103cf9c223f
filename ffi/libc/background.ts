/**
 * Calls that wait on other threads, which have their own errno.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { openSymbols } from "./call.ts";

/** Symbols that are called on other threads, with their own errno. */
const THREADED_SYMBOLS = {
  send: {
    parameters: ["i32", "buffer", "i32", "i32"],
    result: "i32",
    // deno-lint-ignore cni/kernel-is-sync -- a socket stays in its namespace
    nonblocking: true,
  },
  poll: {
    parameters: ["buffer", "u64", "i32"],
    result: "i32",
    // deno-lint-ignore cni/kernel-is-sync -- a socket stays in its namespace
    nonblocking: true,
  },
  close: {
    parameters: ["i32"],
    result: "i32",
    // deno-lint-ignore cni/kernel-is-sync -- closes a socket in any namespace
    nonblocking: true,
  },
} as const;

let threaded:
  | Deno.DynamicLibrary<typeof THREADED_SYMBOLS>["symbols"]
  | undefined;

function threadedCalls(): NonNullable<typeof threaded> {
  return threaded ??= openSymbols(THREADED_SYMBOLS);
}

/** Memory that other threads read and write: V8 frees unreferenced memory. */
const lent = new Set<Bytes>();

/** Keeps a reference to memory until a call on another thread has returned. */
function lend<T>(memory: Bytes, call: PromiseLike<T>): PromiseLike<T> {
  lent.add(memory);
  const giveBack = (): boolean => lent.delete(memory);
  call.then(giveBack, giveBack);
  return call;
}

/**
 * send(2) on another thread, for messages whose handling takes long in the kernel.
 *
 * @param message Must not change before the call has returned
 * @returns Negative if it was not sent; errno is not available
 */
export function sendInBackground(
  fd: number,
  message: Bytes,
): PromiseLike<number> {
  const { send } = threadedCalls();
  return lend(message, send(fd, message, message.length, 0));
}

/** Source: include/uapi/asm-generic/poll.h. */
const POLLIN = 1;

/** poll(2) on another thread: waits until something can be received. */
export function waitReadable(
  fd: number,
  timeoutMs: number,
): PromiseLike<number> {
  const request = new Uint8Array(new Int32Array([fd, POLLIN]).buffer);
  return lend(request, threadedCalls().poll(request, 1n, timeoutMs));
}

/**
 * close(2) on another thread, for sockets whose closing takes long in the kernel. The
 * descriptor's number can be reused as soon as the thread has begun.
 *
 * @returns Negative if the kernel reports an error; the descriptor is closed anyway
 */
export function closeInBackground(fd: number): PromiseLike<number> {
  return threadedCalls().close(fd);
}
