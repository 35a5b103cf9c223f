/**
 * The files of a network: the content of its directory, and atomic changes to
 * it.
 *
 * The layout is the Go plugin's, and both plugins can use a directory at the same time:
 *
 * - `lock`: empty; flock(2) on it guards everything else
 * - `10.1.2.3`, `2001:db8::5`: a lease (lease.ts); a symbolic link, if it is
 *   persistent or set aside
 * - `last_reserved_ip.<i>`: the last address handed out from range set i
 * - `unfinished`: one of these files while it is written. If a plugin was killed while
 *   it wrote the file, the file remains and has no meaning
 *
 * All other files are foreign and left alone.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { checkChange } from "../../ffi/change_check.ts";
import {
  ifPossible,
  isOfFile,
  readTextFile,
  removeQuietly,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { describeError } from "../../base/error.ts";
import { FileLock, type LockWait } from "../../base/files/lock.ts";
import type { Log } from "../../base/log/log.ts";
import { findIp, isOfLink, type Lease } from "./lease.ts";
import { removeIndex } from "./listing/lease_index.ts";
import type { Listing } from "./listing/listing.ts";
import {
  LAST_RESERVED,
  type ListedDirectory,
  type ListedFile,
  openListing,
  saveListing,
} from "./listing/open.ts";
import { UnfinishedFile } from "./unfinished.ts";

/** Name of the lock file. */
export const LOCK_FILE = "lock";
/** Source: containernetworking/plugins, by alexflint/go-filemutex. */
const LOCK_MODE = 0o750;
/** Not an address, so no program mistakes it for a lease. */
const UNFINISHED_FILE = "unfinished";

/** Returns the name of the file with the last address handed out from a range set. */
export function lastReservedName(rangeSet: number): string {
  return `${LAST_RESERVED}${rangeSet}`;
}

/** When to give up waiting, and where the lock's holder is logged. */
export type LeaseWait = Pick<LockWait, "log" | "signal">;

/** The directory of a network. Hold the lock to change it. */
export class LeaseFiles implements Disposable, ListedDirectory {
  /** Path of the directory. */
  readonly path: string;
  #listing: Listing | undefined;
  /** Whether this call has removed a file. */
  #hasRemoved = false;
  /** Whether there is room for an index, as far as is known. */
  #hasRoom = true;
  readonly #log: Pick<Log, "warn"> | undefined;
  /** The files that cannot be read: any attachment might own these addresses. */
  readonly #unreadable = new Set<string>();
  #directory: Deno.FileInfo | undefined;
  readonly #unfinished: UnfinishedFile;

  /**
   * Names the directory, which need not exist.
   *
   * @param log Names the files that cannot be read
   */
  constructor(
    dataDir: string,
    network: string,
    log?: Pick<Log, "warn">,
  ) {
    this.path = join(dataDir, network);
    this.#log = log;
    const unfinished = this.pathOf(UNFINISHED_FILE);
    this.#unfinished = new UnfinishedFile(unfinished, () => this.#makeRoom());
  }

  /** Returns the path of a file. */
  pathOf(name: string): string {
    return join(this.path, name);
  }

  /** See {@linkcode ListedDirectory}. */
  get lockPath(): string {
    return this.pathOf(LOCK_FILE);
  }

  /** Creates the directory. */
  create(): void {
    Deno.mkdirSync(this.path, { recursive: true, mode: 0o755 });
  }

  /**
   * Waits for the lock. Creates its file if necessary.
   *
   * @throws {Deno.errors.NotFound} If the directory does not exist
   * @throws {CniError} 11 if others keep the lock
   */
  async lock(wait?: LeaseWait): Promise<FileLock> {
    return await FileLock.acquire(this.lockPath, LOCK_MODE, wait);
  }

  /**
   * Waits for the lock where its file can only be read.
   *
   * @throws {Deno.errors.NotFound} If the file does not exist
   * @throws {CniError} 11 if others keep the lock
   */
  async lockToRead(wait?: LeaseWait): Promise<FileLock> {
    return await FileLock.acquireExisting(this.lockPath, wait);
  }

  /**
   * Lists all files, with the content of possible leases. The lock keeps the
   * directory unchanged.
   *
   * @throws {CniError} 5 if the directory cannot be read, or no file can be read now
   */
  list(): Listing {
    return this.#listing ??= openListing(this, "quick");
  }

  /**
   * Like {@linkcode LeaseFiles.list}, but without the index, for a caller that
   * may end any lease.
   *
   * @throws {CniError} 5 as {@linkcode LeaseFiles.list}
   */
  listAll(): Listing {
    if (this.#listing !== undefined && this.#listing.source !== "index") {
      return this.#listing;
    }
    return this.#listing = openListing(this, "complete");
  }

  /**
   * Lists the leases with a content. A content from the index is verified, because the
   * lease of a different container must not end because of a wrong index.
   *
   * @throws {CniError} 5 as {@linkcode LeaseFiles.list}
   */
  leasesWith(content: string): Lease[] {
    return this.#withContent(content)
      .flatMap((name) => this.toLease(name, content));
  }

  /** Returns the lease of a file, or nothing if the file is not a lease. */
  toLease(name: string, content: string | undefined): Lease[] {
    const ip = content === undefined ? undefined : findIp(name);
    return content === undefined || ip === undefined
      ? []
      : [{ ip, content, path: this.pathOf(name) }];
  }

  #withContent(content: string): string[] {
    const listing = this.list(), names = listing.withContent(content);
    const isRight = (name: string): boolean =>
      ifPossible(() => this.read(name)) === content;
    if (listing.source === "files" || names.every(isRight)) return names;
    this.#listing = openListing(this, "anew");
    return this.#listing.withContent(content);
  }

  /** Writes the index of a large directory, unless it is up to date. */
  saveIndex(): void {
    if (this.#listing === undefined || !this.#hasRoom) return;
    const isChanged = this.#hasRemoved || this.#unfinished.wasWritten;
    saveListing(this, this.#listing, isChanged);
  }

  /** Removes the index, which only saves time. */
  #makeRoom(): boolean {
    const isRemoved = removeIndex(this);
    if (isRemoved) this.#hasRoom = false;
    return isRemoved;
  }

  /** See {@linkcode ListedDirectory}. */
  get info(): Deno.FileInfo {
    return this.#directory ??= this.#whileReading(() =>
      Deno.statSync(this.path)
    );
  }

  /** See {@linkcode ListedDirectory}. */
  get unreadable(): number {
    return this.#unreadable.size;
  }

  /** See {@linkcode ListedDirectory}. */
  readDirectory(): ListedFile[] {
    return this.#whileReading(() => [...Deno.readDirSync(this.path)]);
  }

  #whileReading<T>(run: () => T): T {
    return withIoFailure(`read the lease directory "${this.path}"`, run);
  }

  /** See {@linkcode ListedDirectory}. */
  sweep(name: string): boolean {
    if (name !== UNFINISHED_FILE) return false;
    if (!this.#unfinished.isOurs) removeQuietly(this.pathOf(name));
    return true;
  }

  /**
   * Reads a file, without surrounding blanks.
   *
   * @returns Undefined if the file does not exist
   * @throws {CniError} 5 if it cannot be read
   */
  read(name: string): string | undefined {
    // A link leads nowhere.
    return this.#readBy(readTextFile, name) ?? readLink(this.pathOf(name));
  }

  /** See {@linkcode ListedDirectory}. There are thousands of files at most. */
  readListed({ name, isFile, isSymlink }: ListedFile): string | undefined {
    if (isSymlink) return readLink(this.pathOf(name));
    if (!isFile) {
      if (findIp(name) !== undefined) this.#warn(name, "it is not a file");
      return undefined;
    }
    return this.#unlessUnreadable(
      name,
      () => this.#readBy(Deno.readTextFileSync, name) ?? "",
    );
  }

  /**
   * Returns undefined, and warns, if a single file cannot be read: other containers
   * do not depend on it.
   *
   * @throws {CniError} 5 if no file can be read now
   */
  #unlessUnreadable<T>(name: string, read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      const { cause } = error as Error;
      if (!isOfFile(cause)) throw error;
      this.#unreadable.add(name);
      this.#warn(name, describeError(cause));
      return undefined;
    }
  }

  #warn(name: string, problem: string): void {
    const fields = { path: this.pathOf(name), problem };
    this.#log?.warn("Leaving a lease file that cannot be read", fields);
  }

  /**
   * Reads a file that calls can do without.
   *
   * @returns Undefined if the file does not exist or cannot be read
   * @throws {CniError} 5 if no file can be read now
   */
  find(name: string): string | undefined {
    return this.#unlessUnreadable(name, () => this.read(name));
  }

  #readBy(read: (path: string) => string, name: string): string | undefined {
    const path = this.pathOf(name);
    return withIoFailure(
      `read "${path}"`,
      () => unlessUnreachable(() => read(path).trim()),
    );
  }

  /**
   * Removes a file, if it exists.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(name: string): void {
    const path = this.pathOf(name);
    checkChange();
    this.#hasRemoved = true;
    withIoFailure(
      `remove "${path}"`,
      () => unlessUnreachable(() => Deno.removeSync(path)),
    );
    this.#listing?.delete(name);
  }

  /**
   * Writes a file atomically, and replaces an older file.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  replace(name: string, content: string): void {
    const path = this.pathOf(name);
    checkChange();
    withIoFailure(`write "${path}"`, () => {
      try {
        this.#unfinished.write(content);
        this.#unfinished.rename(path);
      } finally {
        this.#unfinished.discard();
      }
    });
    this.#listing?.set(name, undefined);
  }

  /**
   * Writes a lease whole or not at all, unless the address is leased.
   *
   * @param name The address
   * @param isFree Reports whether a file with some content is not a lease; by default
   *   an empty one
   * @returns False if the address is leased
   * @throws {CniError} 5 if it cannot be written
   */
  addLease(
    name: string,
    content: string,
    isFree: (content: string) => boolean = isBlank,
  ): boolean {
    const path = this.pathOf(name);
    checkChange();
    const isAdded = withIoFailure(`write "${path}"`, () => {
      this.#unfinished.writeSynced(content);
      if (this.#unfinished.link(path)) return true;
      const found = readLease(path);
      if (found === undefined || !isFree(found)) return false;
      this.#unfinished.rename(path);
      return true;
    });
    if (isAdded) this.#listing?.set(name, content);
    return isAdded;
  }

  /**
   * Writes a lease atomically, and replaces the lease of that address.
   *
   * @param writtenMs When it was first written, in ms since 1970; now by default.
   *   Ignored for a link
   * @throws {CniError} 5 if it cannot be written
   */
  replaceLease(name: string, content: string, writtenMs?: number): void {
    const path = this.pathOf(name);
    checkChange();
    withIoFailure(`write "${path}"`, () => {
      try {
        if (isOfLink(content)) this.#unfinished.writeLink(content);
        else this.#unfinished.writeSynced(content, writtenMs);
        this.#unfinished.rename(path);
      } finally {
        this.#unfinished.discard();
      }
    });
    this.#listing?.set(name, content);
  }

  /**
   * Returns when a file was written, in milliseconds since 1970.
   *
   * @returns Undefined if it does not exist
   * @throws {CniError} 5 if that cannot be read
   */
  writtenMs(name: string): number | undefined {
    const path = this.pathOf(name);
    return withIoFailure(
      `read "${path}"`,
      () => unlessUnreachable(() => Deno.lstatSync(path)),
    )?.mtime?.getTime();
  }

  /** Removes an unfinished lease. */
  [Symbol.dispose](): void {
    this.#unfinished[Symbol.dispose]();
  }
}

/**
 * Reports whether a file is not a lease, because it is empty: the Go plugin creates a
 * file before it fills it, so a crash leaves an empty file, which no running
 * container owns.
 */
export function isBlank(content: string): boolean {
  return content === "";
}

/**
 * Reads a lease without surrounding blanks; undefined if it is neither a file nor
 * a link of this plugin, or cannot be read.
 *
 * @throws {Deno.errors.NotFound} If it does not exist
 */
export function readLease(path: string): string | undefined {
  return Deno.lstatSync(path).isFile
    ? ifPossible(() => Deno.readTextFileSync(path).trim())
    : readLink(path);
}

/**
 * Reads the link of a persistent lease, or of an address that is set aside;
 * undefined if it is anything else.
 */
function readLink(path: string): string | undefined {
  const target = ifPossible(() => Deno.readLinkSync(path)) ?? "";
  return isOfLink(target) ? target : undefined;
}
