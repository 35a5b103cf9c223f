/**
 * Writes files at paths that users specify. Another user might own a directory on the
 * path or be able to write to it, and could place a symbolic link to a file of root
 * there.
 *
 * Such a link is never followed, even if it appears during the walk: the path is
 * walked with descriptors of its directories.
 *
 * @module
 */

import { Fd } from "./fd.ts";
import { MAX_LINKS } from "./file_system.ts";
import * as libc from "../libc.ts";
import {
  O_CLOEXEC,
  O_CREAT,
  O_EXCL,
  O_NOFOLLOW,
  O_PATH,
  O_WRONLY,
} from "./open_flags.ts";

/** Permission bits of a new file. */
const NEW_MODE = 0o644;

/**
 * Replaces a file atomically, or creates it, readable by all. An existing file of
 * this user keeps its mode. A pipe or a device is written to.
 *
 * @throws {Error} If the path contains a link that another user can have placed
 * there, and errors of the file system
 */
export function replaceGivenFile(path: string, bytes: Uint8Array): void {
  using place = locate(path);
  const found = findInfo(place.path);
  if (found?.isDirectory) throw new Deno.errors.IsADirectory("Is a directory");
  if (found?.isFile === false) {
    using fd = openThere(place.path, O_WRONLY);
    return Deno.writeFileSync(fd.path, bytes, { create: false });
  }
  const isOwn = found?.uid === Deno.uid();
  const mode = isOwn ? (found?.mode ?? NEW_MODE) & 0o777 : NEW_MODE;
  const temporary = `${place.directory}/.${crypto.randomUUID()}.unfinished`;
  try {
    writeNew(temporary, bytes, mode);
    Deno.renameSync(temporary, place.path);
  } catch (error) {
    remove(temporary);
    throw error;
  }
}

function writeNew(path: string, bytes: Uint8Array, mode: number): void {
  using fd = openThere(path, O_WRONLY | O_CREAT | O_EXCL);
  using file = Deno.openSync(fd.path, { write: true });
  let left = bytes;
  while (left.length > 0) left = left.subarray(file.writeSync(left));
  Deno.chmodSync(fd.path, mode);
  // This precedes the rename: otherwise, a crash could leave an empty file under the
  // final name.
  file.syncSync();
}

/** A name in an open directory. */
class Place implements Disposable {
  /** The directory. */
  readonly directory: string;
  /** The name in it. */
  readonly path: string;
  readonly #fd: Fd;

  constructor(fd: Fd, name: string) {
    this.#fd = fd;
    this.directory = fd.path;
    this.path = `${this.directory}/${name}`;
  }

  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/** Walks a path to its last component, which is no link. */
function locate(path: string): Place {
  const trusted = [0, Deno.uid(), Deno.statSync("/").uid];
  const parts = split(path.startsWith("/") ? path : `${Deno.cwd()}/${path}`);
  using stack = new DisposableStack();
  let directory = stack.use(openThere("/", O_PATH));
  let links = 0;
  for (let part = parts.shift();; part = parts.shift()) {
    if (part === undefined) {
      throw new Deno.errors.IsADirectory("Is a directory");
    }
    const at = `${directory.path}/${part}`;
    const info = findInfo(at);
    if (info?.isSymlink) {
      if (!isTrusted(info, Deno.statSync(directory.path), trusted)) {
        const link = `${Deno.readLinkSync(directory.path)}/${part}`;
        throw new Error(`"${link}" is a link of user ${info.uid}`);
      }
      if (++links > MAX_LINKS) {
        throw new Error("it is a link to itself");
      }
      const target = Deno.readLinkSync(at);
      if (target.startsWith("/")) directory = stack.use(openThere("/", O_PATH));
      parts.unshift(...split(target));
    } else if (parts.length === 0) {
      return new Place(Fd.atPath(directory.path), part);
    } else {
      directory = stack.use(openThere(at, O_PATH));
    }
  }
}

function split(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

/** Reports whether only trusted users can have put a link into a directory. */
function isTrusted(
  link: Deno.FileInfo,
  { uid, gid, mode }: Deno.FileInfo,
  trusted: readonly (number | null)[],
): boolean {
  const bits = mode ?? 0;
  const isShared = (bits & 0o002) !== 0 || (bits & 0o020) !== 0 && gid !== 0;
  return trusted.includes(link.uid) || trusted.includes(uid) && !isShared;
}

/** Opens a file that is not a link. */
function openThere(path: string, flags: number): Fd {
  if (path.includes("\0")) throw new Error("the path has a NUL");
  const all = flags | O_NOFOLLOW | O_CLOEXEC;
  return new Fd(libc.open(path, all, "open", 0o600));
}

function findInfo(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // It was deleted, or the earlier error matters more.
  }
}
