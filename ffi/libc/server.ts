/**
 * Servers on unix sockets, and waiting for descriptors: bind(2), listen(2), accept4(2),
 * poll(2), epoll(7).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import {
  attempt,
  checked,
  EINTR,
  openSymbols,
  PADDING,
  UNCOMPILED,
  unlessBusy,
  unlessFailed,
} from "./call.ts";

/** Symbols of a server on unix sockets. */
const SERVER_SYMBOLS = {
  bind: { parameters: ["i32", "buffer", "u32", UNCOMPILED], result: "i32" },
  listen: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  accept4: {
    parameters: ["i32", "pointer", "pointer", "i32", UNCOMPILED],
    result: "i32",
  },
  getsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "buffer", UNCOMPILED],
    result: "i32",
  },
  shutdown: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  poll: { parameters: ["buffer", "u64", "i32", UNCOMPILED], result: "i32" },
  epoll_create1: { parameters: ["i32", UNCOMPILED], result: "i32" },
  epoll_ctl: {
    parameters: ["i32", "i32", "i32", "buffer", UNCOMPILED],
    result: "i32",
  },
} as const;

let server: Deno.DynamicLibrary<typeof SERVER_SYMBOLS>["symbols"] | undefined;

function serverCalls(): NonNullable<typeof server> {
  return server ??= openSymbols(SERVER_SYMBOLS);
}

/** bind(2). The address is a `struct sockaddr` of the socket's family. */
export function bind(fd: number, address: Bytes): void {
  const symbols = serverCalls();
  checked("bind", () => symbols.bind(fd, address, address.length, PADDING));
}

/** listen(2). */
export function listen(fd: number, backlog: number): void {
  checked("listen", () => serverCalls().listen(fd, backlog, PADDING));
}

/**
 * accept4(2) of a non-blocking socket.
 *
 * @returns A descriptor; undefined if no connection is waiting
 */
export function accept(fd: number, flags: number): number | undefined {
  const symbols = serverCalls();
  return unlessBusy(
    "accept4",
    () => symbols.accept4(fd, null, null, flags, PADDING),
  );
}

/** getsockopt(2). Fills `value`. */
export function getSocketOption(
  fd: number,
  { level, name, value }: { level: number; name: number; value: Bytes },
): void {
  const symbols = serverCalls();
  const length = new Uint8Array(new Uint32Array([value.length]).buffer);
  checked(
    "getsockopt",
    () => symbols.getsockopt(fd, level, name, value, length, PADDING),
  );
}

/** Source: include/uapi/asm-generic/poll.h. */
const POLLIN = 1;

/** poll(2), without waiting. Returns whether something can be received. */
export function isReadable(fd: number): boolean {
  const request = new Uint8Array(new Int32Array([fd, POLLIN]).buffer);
  const symbols = serverCalls();
  for (;;) {
    const count = attempt(() => symbols.poll(request, 1n, 0, PADDING));
    // A signal such as SIGCHLD interrupted it.
    if (count !== -EINTR) return unlessFailed("poll", count) > 0;
  }
}

/** shutdown(2). */
export function shutdown(fd: number, how: number): void {
  checked("shutdown", () => serverCalls().shutdown(fd, how, PADDING));
}

/** epoll_create1(2). Returns a descriptor. */
export function createEpoll(flags: number): number {
  return checked(
    "epoll_create1",
    () => serverCalls().epoll_create1(flags, PADDING),
  );
}

/** epoll_ctl(2). The event is a `struct epoll_event`. */
export function controlEpoll(
  epoll: number,
  operation: number,
  { fd, event }: { fd: number; event: Bytes },
): void {
  const symbols = serverCalls();
  checked(
    "epoll_ctl",
    () => symbols.epoll_ctl(epoll, operation, fd, event, PADDING),
  );
}
