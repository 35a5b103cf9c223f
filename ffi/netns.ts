/**
 * Network namespaces as values: open them, create them, run code inside them.
 *
 * A thread is in one namespace at a time, but a netlink socket stays in the
 * namespace where it was opened. So code enters a namespace only to open a
 * socket, to access `/proc/sys/net` or to start a child synchronously.
 *
 * @module
 */

import { SyscallError } from "./errno.ts";
import { Fd } from "./file/fd.ts";
import { O_CLOEXEC, O_NONBLOCK, O_RDONLY } from "./file/open_flags.ts";
import * as libc from "./libc.ts";
import { endInWrongNetns, OWN_NETNS } from "./own_netns.ts";

/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNET = 0x40000000;
/** Source: include/uapi/asm-generic/errno-base.h. */
const EINVAL = 22;
/** Source: include/uapi/linux/mount.h. */
const MS_BIND = 0x1000, MNT_DETACH = 2;

/** A synchronous result. The compiler rejects promises. */
export type Sync<T> = T extends PromiseLike<unknown> ? never : T;

/** A network namespace, kept alive by an open descriptor. */
export class NetNs implements Disposable {
  readonly #fd: Fd;
  /** The path that it was opened from, for messages. */
  readonly path: string;
  /** Whether it is known to be the thread's default namespace. */
  readonly isOwn: boolean;

  private constructor(fd: Fd, path: string) {
    this.#fd = fd;
    this.path = path;
    this.isOwn = path === OWN_NETNS && entered === undefined;
  }

  /**
   * Opens a namespace by path. Files that are no namespace fail only when they are
   * entered.
   *
   * @throws {SyscallError} ENOENT, EACCES, ... from open(2)
   */
  static open(path: string): NetNs {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    return new NetNs(openToRead(path, O_NONBLOCK), path);
  }

  /**
   * Opens a namespace by a path that a container or another user controls, such as a
   * descriptor or a mount of a process. Opens no other file, because opening a device
   * such as `/dev/watchdog` has effects. Takes 25 µs longer than {@linkcode
   * NetNs.open}.
   *
   * @throws {SyscallError} As {@linkcode NetNs.open}; setns: EINVAL if the file is
   *   not a namespace
   */
  static openUntrusted(path: string): NetNs {
    using found = Fd.atPath(path);
    // All namespaces, and no other files, are on the same device.
    if (Deno.statSync(found.path).dev !== Deno.statSync(OWN_NETNS).dev) {
      throw new SyscallError("setns", EINVAL);
    }
    return new NetNs(openToRead(found.path), path);
  }

  /** Opens the namespace that the calling thread is in. */
  static current(): NetNs {
    return NetNs.open(OWN_NETNS);
  }

  /**
   * Creates a namespace. It exists until it is disposed of, or longer while a process
   * or a mount holds it.
   *
   * @throws {SyscallError} EPERM without CAP_SYS_ADMIN
   */
  static create(): NetNs {
    const before = currentFd();
    libc.unshare(CLONE_NEWNET);
    try {
      const created = openToRead(OWN_NETNS);
      return new NetNs(created, `/proc/${Deno.pid}/fd/${created.number}`);
    } finally {
      returnTo(before);
    }
  }

  /** The descriptor's number, for IFLA_NET_NS_FD and setns(2). */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Mounts the namespace on a file, as `ip netns` does.
   *
   * @param path An existing empty file
   * @throws {SyscallError} From mount(2)
   */
  bindTo(path: string): void {
    libc.mount(this.#fd.path, path, MS_BIND);
  }

  /** Closes the descriptor; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

function openToRead(path: string, flags = 0): Fd {
  return new Fd(libc.open(path, O_RDONLY | O_CLOEXEC | flags));
}

/**
 * Unmounts a namespace from its file. The file stays.
 *
 * @throws {SyscallError} EINVAL if nothing is mounted there
 */
export function unbindNetNs(path: string): void {
  libc.umount(path, MNT_DETACH);
}

/**
 * Runs `work` with the calling thread inside a namespace, then moves the thread
 * back.
 *
 * `work` must be entirely synchronous. Asynchronous file access and nonblocking
 * FFI run on other threads, which stay outside and would silently use the wrong
 * namespace. If the thread cannot return afterwards, the process ends.
 *
 * @throws {SyscallError} EINVAL if `netns` is not a network namespace; EPERM, before
 * the thread has left its own namespace
 */
export function inNetns<T>(netns: NetNs, work: () => Sync<T>): T {
  if (netns.isOwn && entered === undefined) return work();
  const outer = entered, before = currentFd();
  libc.setns(netns.fd, CLONE_NEWNET);
  entered = netns;
  try {
    return work();
  } finally {
    entered = outer;
    returnTo(before);
  }
}

/** The thread's default namespace. Opened once, never closed. */
let own: NetNs | undefined;
/** The namespace that `inNetns()` has moved the thread to. */
let entered: NetNs | undefined;

/** Returns the descriptor of the namespace that the thread is in. */
function currentFd(): number {
  return (entered ?? (own ??= openOwn())).fd;
}

/**
 * Opens and enters the thread's default namespace, because root in a different user
 * namespace can leave the machine's network namespace, but cannot return.
 *
 * @throws {SyscallError} EPERM if the thread could not return
 */
function openOwn(): NetNs {
  const opened = NetNs.current();
  try {
    libc.setns(opened.fd, CLONE_NEWNET);
    return opened;
  } catch (error) {
    opened[Symbol.dispose]();
    throw error;
  }
}

/**
 * Moves the thread back. If setns(2) refuses, the process ends: the thread might have
 * lost its capabilities, or the kernel might have no memory.
 */
function returnTo(fd: number): void {
  try {
    libc.setns(fd, CLONE_NEWNET);
  } catch (error) {
    endInWrongNetns(error);
  }
}

/**
 * Reports whether an error means that the namespace no longer exists: its path was
 * deleted, its process has exited, only the plain file on which it was mounted is
 * left after a reboot, or its descriptor in a process now refers to a socket.
 */
export function isMissingNetns(error: unknown): boolean {
  return error instanceof SyscallError &&
    (error.syscall === "open" &&
        ["ENOENT", "ESRCH", "ENOTDIR", "ELOOP", "ENAMETOOLONG", "ENXIO"]
          .includes(error.errno) ||
      error.syscall === "setns" && error.errno === "EINVAL");
}
