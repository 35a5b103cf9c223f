/**
 * Named network namespaces, shared with `ip netns`. A name is a file with the
 * namespace mounted on it.
 *
 * Source: iproute2 ip/ipnetns.c, lib/namespace.c; ip-netns(8).
 *
 * @module
 */

import { isTaken, unlessMissing } from "../../base/files/io.ts";
import { FileLock, lockPrivately } from "../../base/files/lock.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Fd } from "../../ffi/file/fd.ts";
import { O_CLOEXEC, O_NONBLOCK, O_RDONLY } from "../../ffi/file/open_flags.ts";
import * as libc from "../../ffi/libc.ts";
import { NetNs, unbindNetNs } from "../../ffi/netns.ts";

/** The directory of names. Source: iproute2 include/namespace.h. */
const NETNS_DIRECTORY = "/var/run/netns";
/** The directory if /var/run is not a link to /run. */
const OTHER_NETNS_DIRECTORY = "/run/netns";

/** Source: include/uapi/linux/mount.h. */
const MS_BIND = 0x1000, MS_REC = 0x4000, MS_SHARED = 1 << 20;
/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNET = 0x40000000;
/** Source: include/uapi/linux/limits.h `NAME_MAX`. */
const LONGEST_NAME_BYTES = 255;

/** An entry in the directory of names. */
export interface NamedNetns {
  readonly name: string;
  readonly path: string;
  /** Whether a network namespace is mounted there; undefined if unknown. */
  readonly isNetns: boolean | undefined;
  /** Its inode, the number in `net:[4026531840]`; undefined if it is not a namespace. */
  readonly inode: number | undefined;
}

/**
 * Returns the path for a name. The namespace need not exist.
 *
 * @throws {Error} If the name is invalid
 */
export function pathOfName(name: string): string {
  const bytes = new TextEncoder().encode(name).length;
  const isName = !["", ".", ".."].includes(name) && !/[/\0]/.test(name);
  if (!isName || bytes > LONGEST_NAME_BYTES) {
    throw new Error(
      `Cannot name a network namespace ${JSON.stringify(name)}: ` +
        "a name must have 1 to 255 bytes and no slash",
    );
  }
  const other = `${OTHER_NETNS_DIRECTORY}/${name}`;
  const path = `${NETNS_DIRECTORY}/${name}`;
  return !isTaken(path) && isTaken(other) ? other : path;
}

/**
 * Reports whether a path leads to a network namespace.
 *
 * @returns Undefined if unknown, for instance without permission
 */
export function isNetns(path: string): boolean | undefined {
  try {
    const flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
    using fd = new Fd(libc.open(path, flags));
    return libc.namespaceType(fd.number) === CLONE_NEWNET;
  } catch (error) {
    const isNone = isErrno(error, "ENOENT", "ENOTDIR", "ESRCH", "ENOTTY") ||
      isErrno(error, "EINVAL", "ELOOP", "ENXIO");
    return isNone ? false : undefined;
  }
}

/** Lists the entries of the directory, sorted by name. */
export function listNamedNetns(): NamedNetns[] {
  return listNames().map((name) => {
    const path = `${NETNS_DIRECTORY}/${name}`;
    const found = isNetns(path);
    const inode = found === true ? Deno.statSync(path).ino : null;
    return { name, path, isNetns: found, inode: inode ?? undefined };
  });
}

function listNames(): string[] {
  try {
    const entries = unlessMissing(() => [...Deno.readDirSync(NETNS_DIRECTORY)]);
    return (entries ?? []).map(({ name }) => name).sort();
  } catch (error) {
    throw new Error(`Cannot list "${NETNS_DIRECTORY}"`, { cause: error });
  }
}

/**
 * Creates a named namespace, as `ip netns add` does. All its links are down,
 * including loopback.
 *
 * @returns Its path
 * @throws {Error} If the name is taken or the kernel refuses
 */
export async function addNamed(name: string): Promise<string> {
  const path = pathOfName(name);
  const failed = (cause: unknown): Error =>
    new Error(`Cannot add network namespace "${name}"`, { cause });
  try {
    await shareDirectory();
    createNameFile(path);
  } catch (error) {
    throw failed(error);
  }
  try {
    using netns = NetNs.create();
    netns.bindTo(path);
  } catch (error) {
    await Deno.remove(path);
    throw failed(error);
  }
  return path;
}

/**
 * Makes the directory a mount that mount namespaces share. Then all of them see
 * new names, and none keeps a deleted namespace alive.
 */
async function shareDirectory(): Promise<void> {
  await Deno.mkdir(NETNS_DIRECTORY, { recursive: true, mode: 0o755 });
  if (tryToShare()) return;
  // Two concurrent processes would mount it on itself repeatedly.
  using _lock = await lockPrivately("netns", {
    what: `"${NETNS_DIRECTORY}"`,
  });
  // `ip netns add` locks the directory. Any user can lock it, so do not wait.
  using _ip = FileLock.tryAcquire(NETNS_DIRECTORY, { create: false });
  if (tryToShare()) return;
  libc.mount(NETNS_DIRECTORY, NETNS_DIRECTORY, MS_BIND | MS_REC);
  libc.mount("", NETNS_DIRECTORY, MS_SHARED | MS_REC);
}

/** Makes the directory a shared mount, unless it is no mount yet. */
function tryToShare(): boolean {
  try {
    libc.mount("", NETNS_DIRECTORY, MS_SHARED | MS_REC);
    return true;
  } catch (error) {
    if (isErrno(error, "EINVAL")) return false;
    throw error;
  }
}

/** Creates the file to mount on, with mode 0, so that it is recognizable as empty. */
function createNameFile(path: string): void {
  try {
    Deno.openSync(path, { write: true, createNew: true, mode: 0 }).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    throw new Error(
      isNetns(path) === false
        ? `"${path}" exists but is not a network namespace; remove the file`
        : "it already exists",
    );
  }
}

/**
 * Deletes a namespace's name, as `ip netns del` does. The namespace ends with
 * the last process in it.
 *
 * @throws {Error} If the name does not exist, or is not a namespace
 */
export function delNamed(name: string): void {
  const path = pathOfName(name);
  const failed = (why: string, cause?: unknown): Error =>
    new Error(
      `Cannot delete network namespace "${name}"${why}`,
      cause === undefined ? {} : { cause },
    );
  const problem = findNetnsProblem(path);
  if (problem !== undefined) throw failed(`: ${problem}`);
  try {
    unbindNetNs(path);
    Deno.removeSync(path);
  } catch (error) {
    throw failed("", error);
  }
}

/** Explains why a path does not lead to a namespace; undefined if it does, or might. */
export function findNetnsProblem(path: string): string | undefined {
  if (!isTaken(path)) return `"${path}" does not exist`;
  return isNetns(path) === false
    ? `"${path}" is not a network namespace`
    : undefined;
}
