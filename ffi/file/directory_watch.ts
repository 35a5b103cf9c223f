/**
 * Watches directories with inotify(7), so that a long-running process need not read
 * an unchanged directory again.
 *
 * The kernel records each change before the system call that makes it returns. A
 * caller that holds a lock that all writers take therefore sees every earlier change.
 *
 * @module
 */

import { i32, struct, u32 } from "../../net/bytes.ts";
import { isErrno, SyscallError } from "../errno.ts";
import * as libc from "../libc.ts";
import { Fd } from "./fd.ts";

/** Source: include/uapi/linux/inotify.h, asm-generic/fcntl.h. */
const IN_NONBLOCK = 0o4000, IN_CLOEXEC = 0o2000000;
const IN_MODIFY = 0x2,
  IN_MOVED_FROM = 0x40,
  IN_MOVED_TO = 0x80,
  IN_CREATE = 0x100,
  IN_DELETE = 0x200,
  IN_ONLYDIR = 0x0100_0000;
/** Changes of the directory's files. */
const EVENTS = IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE |
  IN_ONLYDIR;
const NAME_IS_GONE = IN_MOVED_FROM | IN_DELETE;
/** The watch has ended, or changes were lost. */
const IN_UNMOUNT = 0x2000, IN_Q_OVERFLOW = 0x4000, IN_IGNORED = 0x8000;
const IS_LOST = IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED;

/** A name follows, with a NUL at least. Source: `struct inotify_event`. */
const eventHeader = struct({ watch: i32, mask: u32, cookie: u32, length: u32 });

/** Room for about 500 events; the next read(2) returns the rest. */
const BUFFER_BYTES = 16 * 1024;

/** Size of `struct statfs`. Source: asm-generic/statfs.h. */
const STATFS_BYTES = 120;
/**
 * File systems that only this machine changes. On network file systems, the kernel
 * reports only the changes of this machine.
 *
 * Source: include/uapi/linux/magic.h; OpenZFS.
 */
const LOCAL_TYPES: readonly number[] = [
  0xef53, // ext2, ext3 and ext4
  0x5846_5342, // XFS
  0x9123_683e, // Btrfs
  0x0102_1994, // tmpfs
  0x8584_58f6, // ramfs
  0x794c_7630, // overlayfs
  0xf2f5_2010, // F2FS
  0x2fc1_2fc1, // ZFS
  0xca45_1a4e, // bcachefs
];

/** The names that have changed, and whether a file with that name now exists. */
export type NameChanges = ReadonlyMap<string, boolean>;

/** A directory that is watched until disposal. */
export class DirectoryWatch implements Disposable {
  #changes: Map<string, boolean> | undefined = new Map();
  readonly #receive: () => void;
  readonly #end: () => void;

  /** Use {@linkcode DirectoryWatches.watch}. */
  constructor(receive: () => void, end: () => void) {
    this.#receive = receive;
    this.#end = end;
  }

  /**
   * Returns the changes since the last call, or since the watch began.
   *
   * @returns Undefined if changes might be missing; then all later calls return
   * undefined
   */
  takeChanges(): NameChanges | undefined {
    this.#receive();
    const changes = this.#changes;
    if (changes !== undefined) this.#changes = new Map();
    return changes;
  }

  /** Records an event. */
  record(mask: number, name: string): void {
    if (mask & IS_LOST) this.#changes = undefined;
    else this.#changes?.set(name, (mask & NAME_IS_GONE) === 0);
  }

  /** Ends the watch. */
  [Symbol.dispose](): void {
    this.#changes = undefined;
    this.#end();
  }
}

/** Directories that a single descriptor watches. */
export class DirectoryWatches implements Disposable {
  readonly #fd: Fd;
  readonly #watches = new Map<number, DirectoryWatch>();
  readonly #buffer = new Uint8Array(BUFFER_BYTES);

  /**
   * Opens the descriptor.
   *
   * @throws {SyscallError} EMFILE if the user has too many inotify descriptors
   */
  constructor() {
    this.#fd = new Fd(libc.createInotify(IN_NONBLOCK | IN_CLOEXEC));
  }

  /**
   * Watches a directory, which must not be watched already.
   *
   * @returns Undefined if the directory cannot be watched: the user has too many
   * watches, or other machines can change the directory
   */
  watch(path: string): DirectoryWatch | undefined {
    try {
      if (!isLocal(path)) return undefined;
      const number = libc.addWatch(this.#fd.number, path, EVENTS);
      const watch = new DirectoryWatch(
        () => this.#receive(),
        () => this.#end(number),
      );
      this.#watches.set(number, watch);
      return watch;
    } catch (error) {
      if (error instanceof SyscallError) return undefined;
      throw error;
    }
  }

  #end(number: number): void {
    if (!this.#watches.delete(number)) return;
    try {
      libc.removeWatch(this.#fd.number, number);
    } catch (error) {
      // The kernel has removed the watch, because the directory was deleted.
      if (!isErrno(error, "EINVAL")) throw error;
    }
  }

  #receive(): void {
    for (;;) {
      const length = libc.readNow(this.#fd.number, this.#buffer);
      if (length === undefined) return;
      this.#record(length);
    }
  }

  #record(length: number): void {
    for (let at = 0; at < length;) {
      const end = at + eventHeader.size;
      const event = eventHeader.decode(this.#buffer.slice(at, end));
      at = end + event.length;
      const name = decoder.decode(this.#buffer.subarray(end, at));
      const { mask } = event;
      if (mask & IN_Q_OVERFLOW) {
        for (const watch of this.#watches.values()) watch.record(mask, "");
        continue;
      }
      this.#watches.get(event.watch)?.record(mask, name.replace(/\0+$/, ""));
      if (mask & IN_IGNORED) this.#watches.delete(event.watch);
    }
  }

  /** Ends all watches. */
  [Symbol.dispose](): void {
    for (const watch of this.#watches.values()) watch.record(IN_IGNORED, "");
    this.#watches.clear();
    this.#fd[Symbol.dispose]();
  }
}

const decoder = new TextDecoder();

function isLocal(path: string): boolean {
  const bytes = new Uint8Array(STATFS_BYTES);
  libc.statFileSystem(path, bytes);
  // The type comes first; the upper half is 0.
  return LOCAL_TYPES.includes(u32.decode(bytes.slice(0, u32.size)));
}
