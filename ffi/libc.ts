/**
 * System calls through the C library with FFI: synchronous, apart from a few calls
 * that wait on other threads.
 *
 * `epoll.ts` and `socket/unix_stream.ts` open the library themselves; no other file
 * in `ffi/` does.
 *
 * @module
 */

export * from "./libc/background.ts";
export * from "./libc/file.ts";
export * from "./libc/namespace.ts";
export * from "./libc/process.ts";
export * from "./libc/server.ts";
export * from "./libc/socket.ts";
export * from "./libc/watch.ts";
