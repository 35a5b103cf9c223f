/**
 * Files and descriptors: open(2), write(2), flock(2), fcntl(2), ioctl(2), statfs(2), access(2).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { SyscallError } from "../errno.ts";
import { O_NONBLOCK } from "../file/open_flags.ts";
import {
  checked,
  cString,
  EAGAIN,
  EBADF,
  libc,
  openSymbols,
  PADDING,
  UNCOMPILED,
  unlessBusy,
} from "./call.ts";

/** Symbols that few plugins need. */
const LOCK_SYMBOLS = {
  flock: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
  write: {
    parameters: ["i32", "buffer", "usize", UNCOMPILED],
    result: "isize",
  },
} as const;

/** Symbols to create tap devices. */
const DEVICE_SYMBOLS = {
  withBytes: {
    name: "ioctl",
    parameters: ["i32", "u64", "buffer", UNCOMPILED],
    result: "i32",
  },
  withNumber: {
    name: "ioctl",
    parameters: ["i32", "u64", "u64", UNCOMPILED],
    result: "i32",
  },
} as const;

/** Symbols for file systems. */
const DISK_SYMBOLS = {
  statfs: { parameters: ["buffer", "buffer", UNCOMPILED], result: "i32" },
  access: { parameters: ["buffer", "i32", UNCOMPILED], result: "i32" },
} as const;

/**
 * open(2). Returns a descriptor.
 *
 * @param action The beginning of the error's message; "open" by default
 * @param mode The mode of a created file
 */
export function open(
  path: string,
  flags: number,
  action?: string,
  mode = 0,
): number {
  const { symbols } = libc(), bytes = cString(path);
  return checked(
    "open",
    () => symbols.open(bytes, flags, mode, PADDING),
    action,
  );
}

/** close(2). */
export function close(fd: number): void {
  const { symbols, errno } = libc();
  if (symbols.close(fd, PADDING) >= 0) return;
  // Not repeated, because the number might already belong to another file. The kernel
  // never returns EAGAIN, and only files on disks have further errors.
  const [number = 0] = errno;
  throw new SyscallError("close", number === EAGAIN ? EBADF : number);
}

let locks: Deno.DynamicLibrary<typeof LOCK_SYMBOLS>["symbols"] | undefined;

/** Source: include/uapi/asm-generic/fcntl.h. */
const LOCK_EX = 2, LOCK_NB = 4;

function lockCalls(): NonNullable<typeof locks> {
  return locks ??= openSymbols(LOCK_SYMBOLS);
}

/** flock(2), exclusive and without waiting. Returns whether the lock was acquired. */
export function tryLock(fd: number): boolean {
  const symbols = lockCalls();
  const call = (): number => symbols.flock(fd, LOCK_EX | LOCK_NB, PADDING);
  return unlessBusy("flock", call) !== undefined;
}

/** Source: include/uapi/asm-generic/errno-base.h. */
const ENOSPC = 28;

/**
 * write(2) of all bytes to a file with a single call: a reader sees all of them or
 * none, even if this process is killed.
 *
 * @throws {SyscallError} ENOSPC, even if some of the bytes could be written
 */
export function writeWhole(fd: number, bytes: Bytes): void {
  const { write } = lockCalls();
  const call = (): number =>
    Number(write(fd, bytes, BigInt(bytes.length), PADDING));
  if (checked("write", call) < bytes.length) {
    throw new SyscallError("write", ENOSPC);
  }
}

/** Source: include/uapi/asm-generic/fcntl.h. */
const F_SETFD = 2, F_SETFL = 4, FD_CLOEXEC = 1;

/** fcntl(2): sets whether execve(2) closes a descriptor. */
export function setCloseOnExec(fd: number, isOn: boolean): void {
  const flags = isOn ? FD_CLOEXEC : 0;
  checked("fcntl", () => lockCalls().fcntl(fd, F_SETFD, flags, PADDING));
}

/** fcntl(2): makes calls for a descriptor return instead of waiting. */
export function setNonBlocking(fd: number): void {
  checked("fcntl", () => lockCalls().fcntl(fd, F_SETFL, O_NONBLOCK, PADDING));
}

let devices: Deno.DynamicLibrary<typeof DEVICE_SYMBOLS>["symbols"] | undefined;

function deviceCalls(): NonNullable<typeof devices> {
  return devices ??= openSymbols(DEVICE_SYMBOLS);
}

/** Source: include/uapi/asm-generic/ioctls.h. */
const FIOCLEX = 0x5451n;

/** ioctl(2): makes execve(2) close a descriptor. */
export function closeOnExec(fd: number): void {
  controlWithNumber(fd, FIOCLEX, 0);
}

/** ioctl(2) with a structure, which the call can change. */
export function controlWithBytes(fd: number, code: bigint, value: Bytes): void {
  const symbols = deviceCalls();
  checked("ioctl", () => symbols.withBytes(fd, code, value, PADDING));
}

/** ioctl(2) with a number. */
export function controlWithNumber(
  fd: number,
  code: bigint,
  value: number,
): void {
  const symbols = deviceCalls();
  checked("ioctl", () => symbols.withNumber(fd, code, BigInt(value), PADDING));
}

let disks: Deno.DynamicLibrary<typeof DISK_SYMBOLS>["symbols"] | undefined;

function diskLibc(): NonNullable<typeof disks> {
  return disks ??= openSymbols(DISK_SYMBOLS);
}

/** statfs(2). Fills `value`, a `struct statfs`. */
export function statFileSystem(path: string, value: Bytes): void {
  checked("statfs", () => diskLibc().statfs(cString(path), value, PADDING));
}

/** access(2). */
export function access(path: string, mode: number): void {
  checked("access", () => diskLibc().access(cString(path), mode, PADDING));
}
