/**
 * Network namespaces as values: open, create, and work inside one for a moment.
 *
 * A thread is in one namespace at a time, but a netlink socket stays in the one
 * where it was opened. So a namespace is entered only to open a socket, to
 * touch `/proc/sys/net` or to start a child synchronously.
 *
 * @module
 */

import { SyscallError } from "./errno.ts";
import { Fd } from "./fd.ts";
import * as libc from "./libc.ts";

/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNET = 0x40000000;
/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_NONBLOCK = 0o4000, O_CLOEXEC = 0o2000000;
/** Source: include/uapi/linux/mount.h. */
const MS_BIND = 0x1000, MNT_DETACH = 2;

/**
 * The namespace of the calling thread. Not `/proc/self`, which is the main
 * thread's: test runners and workers run our code on another one.
 */
export const CURRENT_NETNS = "/proc/thread-self/ns/net";

/** A result that is there now: promises are refused by the compiler. */
export type Sync<T> = T extends PromiseLike<unknown> ? never : T;

/** A network namespace, kept alive by an open descriptor. */
export class NetNs implements Disposable {
  readonly #fd: Fd;
  /** The path it was opened from, for messages. */
  readonly path: string;

  private constructor(fd: Fd, path: string) {
    this.#fd = fd;
    this.path = path;
  }

  /**
   * Opens a namespace by path. Whether it is one is known only on entering.
   *
   * @throws {SyscallError} ENOENT, EACCES, ... from open(2)
   */
  static open(path: string): NetNs {
    // A FIFO would otherwise be waited for until somebody writes to it.
    const flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
    return new NetNs(new Fd(libc.open(path, flags)), path);
  }

  /** Opens the namespace that the calling thread is in. */
  static current(): NetNs {
    return NetNs.open(CURRENT_NETNS);
  }

  /**
   * Makes a new namespace that lives until it is disposed of, or longer while
   * a process or a mount holds it.
   *
   * @throws {SyscallError} EPERM without CAP_SYS_ADMIN
   */
  static create(): NetNs {
    using before = NetNs.current();
    libc.unshare(CLONE_NEWNET);
    try {
      const created = new Fd(libc.open(CURRENT_NETNS, O_RDONLY | O_CLOEXEC));
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
   * Gives the namespace a name in the file system, as `ip netns` does.
   *
   * @param path An existing empty file
   * @throws {SyscallError} From mount(2)
   */
  bindTo(path: string): void {
    libc.mount(`/proc/thread-self/fd/${this.fd}`, path, MS_BIND);
  }

  /** Closes the descriptor; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/**
 * Takes the name of a namespace away again; the file stays.
 *
 * @throws {SyscallError} EINVAL if nothing is mounted there
 */
export function unbindNetNs(path: string): void {
  libc.umount(path, MNT_DETACH);
}

/**
 * Runs `work` with the calling thread inside a namespace, then returns.
 *
 * `work` must be synchronous through and through: asynchronous file access and
 * nonblocking FFI run on other threads, which stay outside and would answer
 * for the wrong namespace without an error.
 *
 * @throws {SyscallError} EINVAL if `netns` is not a network namespace, EPERM
 */
export function inNetns<T>(netns: NetNs, work: () => Sync<T>): T {
  using before = NetNs.current();
  libc.setns(netns.fd, CLONE_NEWNET);
  try {
    return work();
  } finally {
    returnTo(before);
  }
}

/**
 * Moves the thread back. One that cannot return would go on in the wrong
 * namespace: so it is, for one, that root of a user namespace of its own leaves
 * the network namespace of the machine.
 *
 * @throws {StrandedThreadError} If setns(2) refuses
 */
function returnTo(netns: NetNs): void {
  try {
    libc.setns(netns.fd, CLONE_NEWNET);
  } catch (error) {
    throw new StrandedThreadError(error);
  }
}

/**
 * The thread is stuck in a foreign namespace. Never catch this one: nothing that
 * runs on this thread afterwards would act where it means to.
 */
export class StrandedThreadError extends Error {
  override readonly name = "StrandedThreadError";

  /** @param cause What setns(2) said */
  constructor(cause: unknown) {
    super("Cannot return to the namespace this thread came from", { cause });
  }
}

/**
 * Says whether an error means that there is no such namespace any more: the
 * path is gone, the process behind it has ended, or (after a reboot) only the
 * plain file is left on which the namespace was mounted.
 */
export function isMissingNetns(error: unknown): boolean {
  return error instanceof SyscallError &&
    (error.syscall === "open" &&
        ["ENOENT", "ESRCH", "ENOTDIR", "ELOOP", "ENAMETOOLONG"].includes(
          error.errno,
        ) ||
      error.syscall === "setns" && error.errno === "EINVAL");
}
