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

/** The leases of one network, locked until disposal. */
export class LeaseStore implements Disposable {
  readonly #folder: string;
  readonly #lock: FileLock;

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
    return withIoFailure(`open the lease folder "${folder}"`, () => {
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
    const path = this.#path(ip.toString());
    if (withIoFailure(`look for "${path}"`, () => isTaken(path))) return false;
    this.#write(path, formatOwner(owner));
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
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length === 1) throw failures[0];
    if (failures.length > 1) {
      const message = `Cannot end ${failures.length} leases`;
      throw new AggregateError(failures, message);
    }
  }

  /**
   * Ends the lease of an address, if there is one.
   *
   * @throws {CniError} 5 if it cannot be ended
   */
  releaseIp(ip: Ip): void {
    removeIfThere(this.#path(ip.toString()));
  }

  /**
   * Reads which address was last handed out of a range set.
   *
   * @returns Undefined if that is not known, or not understood
   * @throws {CniError} 5 if it cannot be read
   */
  lastReserved(rangeSet: number): Ip | undefined {
    const path = this.#path(lastReservedName(rangeSet));
    return parseIp(readIfThere(path)?.trim() ?? "");
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
    const names = withIoFailure(
      `read the lease folder "${this.#folder}"`,
      () => [...Deno.readDirSync(this.#folder)],
    );
    return names.flatMap(({ name, isFile }) => {
      const ip = isFile ? parseIp(name) : undefined;
      if (ip === undefined) return [];
      const path = this.#path(name);
      const content = readIfThere(path)?.trim();
      return content === undefined ? [] : [{ ip, path, content }];
    });
  }

  /** Writes a file whole or not at all, in place of an older one. */
  #write(path: string, content: string): void {
    const unfinished = this.#path(UNFINISHED_FILE);
    withIoFailure(`write "${path}"`, () => {
      try {
        // One may be left of a process that was killed.
        removeIfThere(unfinished);
        writeDurably(unfinished, content);
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

function isTaken(path: string): boolean {
  const found = unlessMissing(() => Deno.lstatSync(path));
  return found !== undefined && !(found.isFile && found.size === 0);
}

function readIfThere(path: string): string | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => Deno.readTextFileSync(path)),
  );
}

function writeDurably(path: string, content: string): void {
  using file = Deno.openSync(path, {
    write: true,
    createNew: true,
    mode: 0o600,
  });
  let bytes = new TextEncoder().encode(content);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
  // The content must be on disk before the name is.
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
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
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
