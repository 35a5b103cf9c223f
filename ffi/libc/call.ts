/**
 * Calls of the C library with FFI: opening the library, and reading errno.
 *
 * The library is opened on first use, because calls such as VERSION or host-local
 * need none of these system calls. Rarely used symbols are opened separately, on
 * their own first use.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { SyscallError } from "../errno.ts";

/**
 * An extra by-value argument that makes Deno skip its just-in-time compiler for
 * a symbol. Each symbol then takes 0.05 ms instead of 0.3 ms at start-up, and
 * each call 0.2 µs more. The argument is passed in the register after the real
 * arguments, which the callee ignores: in the C calling conventions of x86-64
 * and arm64 the caller cleans up. This works for up to five real arguments,
 * because x86-64 passes six in registers.
 */
export const UNCOMPILED = { struct: ["i32"] } as const;
/** The value of the argument {@linkcode UNCOMPILED}. */
export const PADDING: Bytes = new Uint8Array(4);

/** Symbols that every plugin needs. */
const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
  setsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "u32", UNCOMPILED],
    result: "i32",
  },
  connect: {
    parameters: ["i32", "buffer", "u32", UNCOMPILED],
    result: "i32",
  },
  send: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  recv: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  open: { parameters: ["buffer", "i32", "i32", UNCOMPILED], result: "i32" },
  close: { parameters: ["i32", UNCOMPILED], result: "i32" },
  setns: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  __errno_location: { parameters: [UNCOMPILED], result: "pointer" },
} as const;

/** The opened library, and the address of this thread's errno. */
interface Libc {
  readonly symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
  readonly errno: Int32Array;
}

let opened: Libc | undefined;

/** Opens the library, and finds the address of errno. */
export function libc(): Libc {
  if (opened !== undefined) return opened;
  const { symbols } = Deno.dlopen("libc.so.6", SYMBOLS);
  const location = symbols.__errno_location(PADDING);
  if (location === null) throw new Error("Cannot find errno of this thread");
  const errno = new Int32Array(
    Deno.UnsafePointerView.getArrayBuffer(location, 4),
  );
  return opened = { symbols, errno };
}

/** Opens further symbols of the library. */
export function openSymbols<S extends Deno.ForeignLibraryInterface>(
  symbols: S,
): Deno.DynamicLibrary<S>["symbols"] {
  libc(); // finds errno
  return Deno.dlopen("libc.so.6", symbols).symbols;
}

/** Source: include/uapi/asm-generic/errno-base.h. */
export const EINTR = 4, EBADF = 9, EAGAIN = 11;

/** How often a call that fails with EAGAIN is made in total. */
const ATTEMPTS = 3;

/**
 * Makes a call, and reads errno immediately afterwards, because any Deno API in
 * between can change it.
 *
 * A signal handler can change it as well: the runtime's handler writes to a pipe, and
 * leaves EAGAIN if the pipe is full. A failed call has changed nothing, so it is
 * repeated to find out whether EAGAIN is the kernel's answer.
 *
 * @param again Repeats the call
 * @returns Negative errno if it fails
 */
export function attempt(
  call: () => number,
  again: () => number = call,
): number {
  for (let left = ATTEMPTS, next = call;; next = again) {
    const result = next();
    if (result >= 0) return result;
    const errno = opened?.errno[0] ?? 0;
    if (errno !== EAGAIN || --left === 0) return -errno;
  }
}

/**
 * Returns a call's result.
 *
 * @throws {SyscallError} The error that errno names, if the result is negative
 */
export function checked(
  syscall: string,
  call: () => number,
  action: string = syscall,
): number {
  return unlessFailed(syscall, attempt(call), action);
}

/** Returns a result, or throws the error whose negated number it is. */
export function unlessFailed(
  syscall: string,
  result: number,
  action: string = syscall,
): number {
  if (result < 0) throw new SyscallError(syscall, -result, "", action);
  return result;
}

/** Makes a call that does not wait; returns undefined if it would have to. */
export function unlessBusy(
  syscall: string,
  call: () => number,
): number | undefined {
  const result = attempt(call);
  return result === -EAGAIN ? undefined : unlessFailed(syscall, result);
}

const encoder = new TextEncoder();

/** Encodes a text with C's terminating NUL. */
export function cString(text: string): Bytes {
  return encoder.encode(text + "\0");
}
