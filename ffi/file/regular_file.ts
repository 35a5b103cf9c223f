/**
 * Opens files that another program could have replaced by a link or a pipe.
 *
 * @module
 */

import type { SyscallError } from "../errno.ts";
import { Fd } from "./fd.ts";
import * as libc from "../libc.ts";
import {
  O_APPEND,
  O_CLOEXEC,
  O_CREAT,
  O_NOFOLLOW,
  O_NONBLOCK,
  O_WRONLY,
} from "./open_flags.ts";

/** Errors for a symbolic link, a pipe without a reader or a socket, and a directory. */
const NOT_REGULAR = ["ELOOP", "ENXIO", "EISDIR"];

/**
 * Opens a regular file to append to it. A missing file is created, with mode 0600 by
 * default. Neither follows a symbolic link at the end of the path, nor waits for a
 * pipe.
 *
 * @param options.create False to open only an existing file
 *
 * @throws {Error} If the file is not a regular file
 * @throws {Deno.errors.NotFound} If its directory or the file is missing
 * @throws {SyscallError} EACCES, EROFS
 */
export function openRegularFile(
  path: string,
  { create = true, mode = 0o600 }: {
    readonly create?: boolean;
    readonly mode?: number;
  } = {},
): Deno.FsFile {
  using fd = new Fd(openToAppend(path, create ? O_CREAT : 0, mode));
  // Deno cannot adopt a descriptor, but can open the same file again.
  if (!Deno.statSync(fd.path).isFile) {
    throw new Error("it is not a regular file");
  }
  return Deno.openSync(fd.path, { append: true });
}

function openToAppend(path: string, more: number, mode: number): number {
  if (path.includes("\0")) throw new Error("the path has a NUL");
  const flags = O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | more;
  try {
    return libc.open(path, flags | O_NOFOLLOW, "open", mode);
  } catch (error) {
    const { errno } = error as SyscallError;
    if (errno === "ENOENT") throw new Deno.errors.NotFound(String(error));
    if (!NOT_REGULAR.includes(errno)) throw error;
    throw new Error("it is not a regular file", { cause: error });
  }
}
