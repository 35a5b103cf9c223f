/**
 * Namespaces and mounts: setns(2), unshare(2), mount(2), chroot(2), ioctl_ns(2).
 *
 * @module
 */

import {
  checked,
  cString,
  libc,
  openSymbols,
  PADDING,
  UNCOMPILED,
} from "./call.ts";
import { close } from "./file.ts";

/** Symbols to create and mount namespaces, which plugins do not need. */
const NAMESPACE_SYMBOLS = {
  unshare: { parameters: ["i32", UNCOMPILED], result: "i32" },
  fchdir: { parameters: ["i32", UNCOMPILED], result: "i32" },
  chroot: { parameters: ["buffer", UNCOMPILED], result: "i32" },
  mount: {
    parameters: ["buffer", "buffer", "buffer", "u64", "buffer", UNCOMPILED],
    result: "i32",
  },
  umount2: { parameters: ["buffer", "i32", UNCOMPILED], result: "i32" },
  ioctl: { parameters: ["i32", "u64", UNCOMPILED], result: "i32" },
} as const;

/**
 * Symbols for system calls that old C libraries lack. Six arguments leave no register
 * for {@linkcode UNCOMPILED}.
 */
const NEW_SYMBOLS = {
  syscall: {
    parameters: ["i64", "i64", "i64", "buffer", "buffer", "i64"],
    result: "i64",
  },
  // The same function, for a call whose first argument is a string.
  syscallWithString: {
    name: "syscall",
    parameters: ["i64", "buffer", "i64", "buffer", "buffer", "i64"],
    result: "i64",
  },
} as const;

let namespaces:
  | Deno.DynamicLibrary<typeof NAMESPACE_SYMBOLS>["symbols"]
  | undefined;

function namespaceCalls(): NonNullable<typeof namespaces> {
  return namespaces ??= openSymbols(NAMESPACE_SYMBOLS);
}

/** setns(2): moves this thread into the namespace that `fd` refers to. */
export function setns(fd: number, type: number): void {
  checked("setns", () => libc().symbols.setns(fd, type, PADDING));
}

/** unshare(2): moves this thread into new namespaces. */
export function unshare(flags: number): void {
  checked("unshare", () => namespaceCalls().unshare(flags, PADDING));
}

/** Makes a directory this thread's root directory: fchdir(2), then chroot(2). */
export function chroot(fd: number): void {
  const symbols = namespaceCalls();
  checked("fchdir", () => symbols.fchdir(fd, PADDING));
  checked("chroot", () => symbols.chroot(cString("."), PADDING));
}

/** mount(2) of `source` at `target`, without a file system type or data. */
export function mount(source: string, target: string, flags: number): void {
  const [from, to] = [cString(source), cString(target)];
  const symbols = namespaceCalls();
  checked(
    "mount",
    () => symbols.mount(from, to, null, BigInt(flags), null, PADDING),
  );
}

/**
 * mount(2) of a new file system of a type that needs no source, such as `sysfs`.
 *
 * @param data Options of the type, such as `lowerdir=/etc,...`
 */
export function mountNew(
  type: string,
  target: string,
  flags: number,
  data?: string,
): void {
  const [kind, to] = [cString(type), cString(target)];
  const options = data === undefined ? null : cString(data);
  const symbols = namespaceCalls();
  checked(
    "mount",
    () => symbols.mount(kind, to, kind, BigInt(flags), options, PADDING),
  );
}

/**
 * System calls with the same number on all machines. Source:
 * include/uapi/asm-generic/unistd.h.
 */
const FSOPEN = 430n, FSCONFIG = 431n, FSMOUNT = 432n;
/** Source: include/uapi/linux/mount.h. */
const FSOPEN_CLOEXEC = 1n, FSMOUNT_CLOEXEC = 1n, FSCONFIG_CMD_CREATE = 6n;

/**
 * Creates a detached mount of a file system: only the descriptor, through
 * `/proc/self/fd`, leads to it, and the mount ends when the descriptor is closed.
 * Uses fsopen(2), fsconfig(2) and fsmount(2).
 *
 * @returns A descriptor of the mount's root
 * @throws {SyscallError} ENOSYS before Linux 5.2; ENODEV if the kernel does not
 * support the type; EPERM
 */
export function mountDetached(type: string): number {
  const { syscall, syscallWithString } = openSymbols(NEW_SYMBOLS);
  const name = cString(type);
  const context = checked(
    "fsopen",
    () =>
      Number(syscallWithString(FSOPEN, name, FSOPEN_CLOEXEC, null, null, 0n)),
  );
  const call = (what: string, number: bigint, argument: bigint): number =>
    checked(
      what,
      () => Number(syscall(number, BigInt(context), argument, null, null, 0n)),
    );
  try {
    call("fsconfig", FSCONFIG, FSCONFIG_CMD_CREATE);
    return call("fsmount", FSMOUNT, FSMOUNT_CLOEXEC);
  } finally {
    close(context);
  }
}

/** umount2(2). */
export function umount(target: string, flags: number): void {
  const bytes = cString(target);
  checked("umount2", () => namespaceCalls().umount2(bytes, flags, PADDING));
}

/** Source: include/uapi/linux/nsfs.h, `NS_GET_NSTYPE`. */
const NS_GET_NSTYPE = 0xb703n;

/**
 * ioctl_ns(2): returns the type of the namespace that a descriptor refers to.
 *
 * @returns The namespace's CLONE_NEW* flag
 * @throws {SyscallError} ENOTTY if the descriptor is not of a namespace
 */
export function namespaceType(fd: number): number {
  const symbols = namespaceCalls();
  return checked("ioctl", () => symbols.ioctl(fd, NS_GET_NSTYPE, PADDING));
}
