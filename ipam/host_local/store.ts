/**
 * Leases on disk: one file for each address, in a folder for each network.
 *
 * The layout is the Go plugin's, and both may work on one folder at a time:
 *
 * - `lock`: empty; flock(2) on it guards everything else
 * - `10.1.2.3`, `2001:db8::5`: a lease; holds `<container ID>\r\n<interface>`
 *   (only the container ID if it is of a very old plugin)
 * - `last_reserved_ip.<i>`: the address that was last handed out of range set i
 * - `unfinished`: one of these while it is written; outlives only a plugin that
 *   was killed meanwhile, and then has no meaning
 *
 * All other files are somebody else's and left alone.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../cni/error.ts";
import { throwAll } from "../../cni/rollback.ts";
import { FileLock } from "../../ffi/file_lock.ts";
import { AddressError, Ip } from "../../net/ip.ts";

/** Where leases are kept unless the configuration says otherwise. */
export const DEFAULT_DATA_DIR = "/var/lib/cni/networks";

const LOCK_FILE = "lock";
/** Not an address, so no program takes it for a lease. */
const UNFINISHED_FILE = "unfinished";

/** To whom an address is leased. */
export interface Owner {
  readonly containerId: string;
  readonly ifName: string;
}

/** A lease that was found. */
export interface Lease {
  readonly ip: Ip;
  /** The file that holds it. */
  readonly path: string;
  /** Whom it says it belongs to, without blanks around it. */
  readonly content: string;
}

/** Something in the folder; a lease if it has an address. */
type Entry = Lease | { readonly path: string; readonly content?: never };

/** The leases of one network, locked until disposal. */
export class LeaseStore implements Disposable {
  readonly #folder: string;
  readonly #lock: FileLock;
  #known: Map<string, Entry> | undefined;

  private constructor(folder: string, lock: FileLock) {
    this.#folder = folder;
    this.#lock = lock;
  }

  /**
   * Opens and locks the leases of a network, creating the folder if need be.
   *
   * @throws {CniError} 5 if the folder cannot be created or written to
   */
  static open(dataDir: string, network: string): LeaseStore {
    const folder = join(dataDir, network);
    const found = LeaseStore.find(dataDir, network);
    return found ?? withIoFailure(`open the lease folder "${folder}"`, () => {
      Deno.mkdirSync(folder, { recursive: true, mode: 0o755 });
      return new LeaseStore(folder, lockFolder(folder));
    });
  }

  /**
   * Opens and locks the leases of a network if there are any.
   *
   * @throws {CniError} 5 if the folder is there and cannot be locked
   */
  static find(dataDir: string, network: string): LeaseStore | undefined {
    const folder = join(dataDir, network);
    return withIoFailure(`open the lease folder "${folder}"`, () => {
      const lock = unlessMissing(() => lockFolder(folder));
      return lock && new LeaseStore(folder, lock);
    });
  }

  /**
   * Leases an address.
   *
   * The file comes into being with its content, so that no crash and no full
   * disk leaves an empty one. The Go plugin's may be empty after a crash, which
   * no container has outlived: the address is free.
   *
   * @returns False if the address is leased
   * @throws {CniError} 5 if the lease cannot be written
   */
  reserve(ip: Ip, owner: Owner): boolean {
    const entry = this.#entries().get(ip.toString());
    if (entry !== undefined && entry.content !== "") return false;
    const path = this.#path(ip.toString());
    const content = formatOwner(owner);
    try {
      this.#write(path, content, syncContent);
    } catch (error) {
      // Whether the last step was taken or not: nobody is told of the lease.
      removeQuietly(path);
      throw error;
    }
    this.#entries().set(ip.toString(), { ip, path, content });
    return true;
  }

  /**
   * Lists the leases of an owner. Those that name the container alone count
   * only if no lease names the interface as well.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOf(owner: Owner): Lease[] {
    const leases = this.#leases();
    const ownedBy = (content: string): Lease[] =>
      leases.filter((lease) => lease.content === content);
    const exact = ownedBy(formatOwner(owner));
    return exact.length > 0 ? exact : ownedBy(owner.containerId.trim());
  }

  /**
   * Lists the leases that belong to none of the owners. A lease that names the
   * container alone belongs to all of the container's owners.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOfOthers(owners: readonly Owner[]): Lease[] {
    const known = new Set(owners.flatMap((owner) => [
      formatOwner(owner),
      owner.containerId.trim(),
    ]));
    return this.#leases().filter(({ content }) => !known.has(content));
  }

  /**
   * Ends leases; one that is not there is no failure, and one that cannot be
   * ended does not keep the others.
   *
   * @throws {CniError} 5 if one cannot be ended
   * @throws {AggregateError} If several cannot
   */
  release(leases: readonly Lease[]): void {
    const failures: unknown[] = [];
    for (const { path } of leases) {
      try {
        removeIfThere(path);
        this.#known = undefined;
      } catch (error) {
        failures.push(error);
      }
    }
    throwAll(failures, `Cannot end ${failures.length} leases`);
  }

  /**
   * Ends the lease of an address, if there is one.
   *
   * @throws {CniError} 5 if it cannot be ended
   */
  releaseIp(ip: Ip): void {
    removeIfThere(this.#path(ip.toString()));
    this.#known = undefined;
  }

  /**
   * Reads which address was last handed out of a range set.
   *
   * @returns Undefined if that is not known, or not understood
   * @throws {CniError} 5 if it cannot be read
   */
  lastReserved(rangeSet: number): Ip | undefined {
    const name = lastReservedName(rangeSet);
    if (!this.#entries().has(name)) return undefined;
    return parseIp(readIfThere(this.#path(name))?.trim() ?? "");
  }

  /**
   * Remembers which address was last handed out of a range set.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  setLastReserved(rangeSet: number, ip: Ip): void {
    const name = lastReservedName(rangeSet);
    this.#write(this.#path(name), ip.toString());
  }

  #leases(): Lease[] {
    return [...this.#entries().values()].filter((entry) => isLease(entry));
  }

  /** Lists the folder by name, once: the lock keeps it as it is. */
  #entries(): Map<string, Entry> {
    this.#known ??= new Map(
      withIoFailure(
        `read the lease folder "${this.#folder}"`,
        () => [...Deno.readDirSync(this.#folder)],
      ).map((entry) => [entry.name, this.#readEntry(entry)]),
    );
    return this.#known;
  }

  #readEntry({ name, isFile }: Deno.DirEntry): Entry {
    const path = this.#path(name);
    const ip = isFile && /^[\da-f.:]+$/.test(name) ? parseIp(name) : undefined;
    return ip === undefined
      ? { path }
      : { ip, path, content: readIfThere(path)?.trim() ?? "" };
  }

  /**
   * Writes a file whole or not at all, in place of an older one.
   *
   * @param beforeNaming What is done before the file gets its name
   */
  #write(
    path: string,
    content: string,
    beforeNaming: (file: Deno.FsFile) => void = () => {},
  ): void {
    const unfinished = this.#path(UNFINISHED_FILE);
    withIoFailure(`write "${path}"`, () => {
      try {
        writeWhole(unfinished, content, beforeNaming);
        Deno.renameSync(unfinished, path);
      } catch (error) {
        removeQuietly(unfinished);
        throw error;
      }
    });
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  /** Unlocks the leases. */
  [Symbol.dispose](): void {
    this.#lock[Symbol.dispose]();
  }
}

function lockFolder(folder: string): FileLock {
  return FileLock.acquire(join(folder, LOCK_FILE), 0o750);
}

function formatOwner({ containerId, ifName }: Owner): string {
  return `${containerId.trim()}\r\n${ifName}`;
}

function lastReservedName(rangeSet: number): string {
  return `last_reserved_ip.${rangeSet}`;
}

function parseIp(text: string): Ip | undefined {
  try {
    return Ip.parse(text);
  } catch (error) {
    if (error instanceof AddressError) return undefined;
    throw error;
  }
}

function isLease(entry: Entry): entry is Lease {
  return entry.content !== undefined;
}

function readIfThere(path: string): string | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => Deno.readTextFileSync(path)),
  );
}

/** Writes a file, in place of one that was left by a process that was killed. */
function writeWhole(
  path: string,
  content: string,
  finish: (file: Deno.FsFile) => void,
): void {
  using file = Deno.openSync(path, {
    write: true,
    create: true,
    truncate: true,
    mode: 0o600,
  });
  let bytes = new TextEncoder().encode(content);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
  finish(file);
}

/** A lease must be on disk before its name is, or a crash leaves it empty. */
function syncContent(file: Deno.FsFile): void {
  file.syncDataSync();
}

function removeIfThere(path: string): void {
  withIoFailure(
    `remove "${path}"`,
    () => unlessMissing(() => Deno.removeSync(path)),
  );
}

function removeQuietly(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // The error that is reported is the one before.
  }
}

/** Answers undefined where `run` finds that something does not exist. */
function unlessMissing<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Says whether there is no such path, or can be none: ENAMETOOLONG has no class. */
function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.NotADirectory ||
    error instanceof Error && error.message.includes("(os error 36)");
}

/** @throws {CniError} 5, whatever `run` throws, with that as its cause */
function withIoFailure<T>(action: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new CniError(ErrorCode.IoFailure, `Cannot ${action}`, {
      cause: error,
    });
  }
}
