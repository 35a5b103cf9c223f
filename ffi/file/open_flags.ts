/**
 * Flags of open(2).
 *
 * Source: include/uapi/asm-generic/fcntl.h, arch/arm64/include/uapi/asm/fcntl.h.
 *
 * @module
 */

export const O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2;
export const O_CREAT = 0o100, O_EXCL = 0o200, O_TRUNC = 0o1000;
export const O_APPEND = 0o2000, O_NONBLOCK = 0o4000, O_CLOEXEC = 0o2000000;
/** Does not follow a link. */
export const O_NOFOLLOW: number = Deno.build.arch === "aarch64"
  ? 0o100000
  : 0o400000;
/** Opens the path, but not the file at it. */
export const O_PATH = 0o10000000;
