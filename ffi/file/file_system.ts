/**
 * File systems: their free space, and how they are mounted.
 *
 * @module
 */

import { viewOf } from "../../net/bytes.ts";
import * as libc from "../libc.ts";

/**
 * The size of `struct statfs` on 64-bit machines, and the offsets of its fields.
 *
 * Source: include/uapi/asm-generic/statfs.h.
 */
const Layout = {
  bytes: 120,
  blockSize: 8,
  blocks: 16,
  freeBlocks: 24,
  availableBlocks: 32,
  files: 40,
  freeFiles: 48,
  flags: 80,
} as const;
/** Source: include/linux/statfs.h. */
const ST_RDONLY = 1n, ST_NOEXEC = 8n;

/** The most links on a path. Source: linux/namei.h `MAXSYMLINKS`. */
export const MAX_LINKS = 40;

/** The file system of a path. */
export interface FileSystem {
  /** The file system's size in bytes. */
  readonly size: number;
  /** Space that root can still fill, in bytes. */
  readonly free: number;
  /** Space that other users can still fill, in bytes. */
  readonly available: number;
  /** How many files it can contain; 0 if it has no limit. */
  readonly files: number;
  /** How many more files it can contain. */
  readonly freeFiles: number;
  readonly isReadOnly: boolean;
  /** Whether programs on it cannot be executed (`noexec`). */
  readonly isNoExec: boolean;
}

/**
 * Reads the file system of a path.
 *
 * @throws {SyscallError} ENOENT, ENOTDIR, EACCES
 */
export function readFileSystem(path: string): FileSystem {
  const bytes = new Uint8Array(Layout.bytes);
  libc.statFileSystem(path, bytes);
  const view = viewOf(bytes);
  const at = (offset: number): number =>
    Number(view.getBigUint64(offset, true));
  const flags = view.getBigUint64(Layout.flags, true);
  const blockSize = at(Layout.blockSize);
  return {
    size: at(Layout.blocks) * blockSize,
    free: at(Layout.freeBlocks) * blockSize,
    available: at(Layout.availableBlocks) * blockSize,
    files: at(Layout.files),
    freeFiles: at(Layout.freeFiles),
    isReadOnly: (flags & ST_RDONLY) !== 0n,
    isNoExec: (flags & ST_NOEXEC) !== 0n,
  };
}

/** Source: include/uapi/linux/unistd.h; access(2). */
const W_OK = 2, X_OK = 1;

/**
 * Checks that this process can create files in a directory.
 *
 * @throws {SyscallError} ENOENT, ENOTDIR, EACCES, EROFS
 */
export function checkWritable(directory: string): void {
  libc.access(`${directory}/.`, W_OK | X_OK);
}

/** A mounted file system. */
export interface Mount {
  /** The mount point. */
  readonly target: string;
  /** The file system's type, such as `ext4` or `tmpfs`. */
  readonly type: string;
}

/**
 * Finds the mount that a path is in.
 *
 * Source: proc_pid_mountinfo(5).
 *
 * @param path Absolute, without symbolic links
 * @param text The content of mountinfo
 */
export function findMount(path: string, text: string): Mount | undefined {
  const mounts = text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const target = before.split(" ")[4];
    const [type = ""] = after.split(" ");
    return target === undefined ? [] : [{ target: unescapePath(target), type }];
  }).filter(({ target }) =>
    target === "/" || path === target || path.startsWith(`${target}/`)
  );
  // The last of several mounts at a mount point hides the earlier mounts.
  return mounts.reduce<Mount | undefined>(
    (best, one) =>
      best === undefined || one.target.length >= best.target.length
        ? one
        : best,
    undefined,
  );
}

/** Decodes a path in mountinfo, where blanks and similar characters are octal escapes. */
export function unescapePath(text: string): string {
  return text.replace(
    /\\(\d{3})/g,
    (_, digits) => String.fromCharCode(parseInt(digits, 8)),
  );
}
