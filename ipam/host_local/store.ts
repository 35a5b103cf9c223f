/**
 * The locked leases of one network: which address has which owner.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { throwAll } from "../../cni/call/rollback.ts";
import type { Ip } from "../../net/ip.ts";
import {
  awaitUnlessUnreachable,
  FolderLock,
  type FolderWait,
} from "./folder_lock.ts";
import {
  describeOwner,
  findIp,
  formatContainer,
  formatOwner,
  type Lease,
  type Owner,
} from "./lease.ts";
import { lastReservedName, LeaseFolder, type Listing } from "./lease_folder.ts";
import { OwnerFiles } from "./owner_files.ts";

/** Number of addresses to try one by one before the folder is read. */
const MANY_MISSES = 64;

/**
 * The leases of one network, locked until disposal. On a read-only file system,
 * they can be read without the lock.
 */
export class LeaseStore implements Disposable {
  readonly #folder: LeaseFolder;
  readonly #lock: FolderLock;
  readonly #owners: OwnerFiles;
  #areOwnersKept: boolean | undefined;
  #misses = 0;

  private constructor(folder: LeaseFolder, lock: FolderLock) {
    this.#folder = folder;
    this.#lock = lock;
    this.#owners = new OwnerFiles(folder.path);
  }

  /**
   * Opens and locks the leases of a network. Creates the folder if necessary.
   *
   * @throws {CniError} 5 if the folder cannot be created or written to, 11 if
   *   others keep the lock
   */
  static async open(
    dataDir: string,
    network: string,
    wait?: FolderWait,
  ): Promise<LeaseStore> {
    const folder = new LeaseFolder(dataDir, network);
    try {
      const lock = await awaitUnlessUnreachable(
        FolderLock.acquire(folder, wait),
      );
      if (lock !== undefined) return new LeaseStore(folder, lock);
      Deno.mkdirSync(folder.path, { recursive: true, mode: 0o755 });
      return new LeaseStore(folder, await FolderLock.acquire(folder, wait));
    } catch (error) {
      throw asUnopened(folder, error);
    }
  }

  /**
   * Opens and locks the leases of a network if there are any, also on a
   * read-only file system.
   *
   * @throws {CniError} 5 if the folder exists and cannot be locked for another
   *   reason, 11 if others keep the lock
   */
  static async find(
    dataDir: string,
    network: string,
    wait?: FolderWait,
  ): Promise<LeaseStore | undefined> {
    const folder = new LeaseFolder(dataDir, network);
    try {
      const lock = await awaitUnlessUnreachable(
        FolderLock.acquireToLook(folder, wait),
      );
      return lock && new LeaseStore(folder, lock);
    } catch (error) {
      throw asUnopened(folder, error);
    }
  }

  /** Path of the folder. */
  get path(): string {
    return this.#folder.path;
  }

  /** A folder that was large once keeps its owners' files for good. */
  #keepsOwners(): boolean {
    return this.#areOwnersKept ??= this.#lock.isHeld &&
      (this.#folder.isLarge() || this.#owners.areKept());
  }

  /**
   * Lists the leases of an owner. Leases with only the container's ID count
   * only if no lease names the interface as well.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOf(owner: Owner): Lease[] {
    if (this.#folder.listIfSmall() === undefined) {
      const addresses = this.#owners.find(owner);
      const leases = this.#confirm(owner, addresses);
      const areAll = leases.length === addresses.length;
      if (areAll && leases.length > 0) return leases;
    }
    return this.#select(owner, this.#folder.listAll());
  }

  /**
   * Lists the leases of an owner that is about to get one, in a time that does
   * not grow with the folder: in a large folder, only leases of this plugin,
   * unless an ADD of the owner was interrupted.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  knownLeasesOf(owner: Owner): Lease[] {
    const listing = this.#folder.listIfSmall();
    if (listing !== undefined) return this.#select(owner, listing);
    const addresses = this.#owners.findOrCreate(owner);
    return addresses === undefined
      ? this.#select(owner, this.#folder.listAll())
      : this.#confirm(owner, addresses);
  }

  /** Picks the addresses that are really leased to the owner. */
  #confirm(owner: Owner, addresses: readonly string[]): Lease[] {
    const names = addresses.filter((name) => findIp(name) !== undefined);
    const listing = new Map(
      names.map((name) => [name, this.#folder.read(name)]),
    );
    return this.#filter(listing, formatOwner(owner));
  }

  #select(owner: Owner, listing: Listing): Lease[] {
    const exact = this.#filter(listing, formatOwner(owner));
    if (exact.length > 0) return exact;
    return this.#filter(listing, formatContainer(owner.containerId));
  }

  #filter(listing: Listing, content: string): Lease[] {
    return [...listing].filter((entry) => entry[1] === content)
      .flatMap((entry) => this.#toLease(...entry));
  }

  #toLease(name: string, content: string | undefined): Lease[] {
    const ip = content === undefined ? undefined : findIp(name);
    return content === undefined || ip === undefined
      ? []
      : [{ ip, content, path: this.#folder.pathOf(name) }];
  }

  /**
   * Lists the leases of all other owners. A lease with only the container's ID
   * belongs to all owners of that container.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOfOthers(owners: readonly Owner[]): Lease[] {
    const known = new Set<string | undefined>(owners.flatMap((owner) => [
      formatOwner(owner),
      formatContainer(owner.containerId),
    ]));
    return [...this.#folder.listAll()].filter((entry) => !known.has(entry[1]))
      .flatMap((entry) => this.#toLease(...entry));
  }

  /**
   * Announces the owner's leases, before the first one.
   *
   * @throws {CniError} 5 if a later DEL might not find them
   */
  begin(owner: Owner): void {
    if (this.#keepsOwners()) this.#owners.empty(owner);
  }

  /** Records all leases of the owner. Never throws. */
  finish(owner: Owner, ips: readonly Ip[]): void {
    if (this.#keepsOwners()) this.#owners.fill(owner, ips.map(String));
  }

  /**
   * Forgets the owner's record, after some or all of its leases ended. Never
   * throws.
   */
  forget(owner: Owner): void {
    if (this.#keepsOwners()) this.#owners.remove(owner);
  }

  /** Forgets the records of all other owners. Never throws. */
  retain(owners: readonly Owner[]): void {
    if (this.#keepsOwners()) this.#owners.retain(owners);
  }

  /**
   * Leases an address.
   *
   * @returns False if the address is leased
   * @throws {CniError} 5 if the lease cannot be written
   */
  reserve(ip: Ip, owner: Owner): boolean {
    const address = ip.toString(), content = formatOwner(owner);
    if (this.#isListedAsLeased(address)) return false;
    if (this.#folder.addLease(address, content)) return true;
    this.#misses++;
    return false;
  }

  #isListedAsLeased(address: string): boolean {
    // After many leased addresses it is quicker to read them all.
    const listing = this.#misses < MANY_MISSES
      ? this.#folder.listIfSmall()
      : this.#folder.listAll();
    return listing?.has(address) === true && listing.get(address) !== "";
  }

  /**
   * Describes the owner of an address that is not free.
   *
   * @throws {CniError} 5 if the lease cannot be read
   */
  describeLease(ip: Ip): string {
    const name = ip.toString();
    const content = this.#folder.read(name) ?? "";
    return `"${this.#folder.pathOf(name)}" is of ${describeOwner(content)}`;
  }

  /**
   * Ends leases that still exist. If one cannot be ended, the others still are.
   *
   * @throws {CniError} 5 if one cannot be ended
   * @throws {AggregateError} If several cannot
   */
  release(leases: readonly Lease[]): void {
    if (leases.length === 0) return;
    this.#requireLock();
    const failures: unknown[] = [];
    for (const { ip } of leases) {
      try {
        this.takeBack(ip);
      } catch (error) {
        failures.push(error);
      }
    }
    throwAll(failures, `Cannot end ${failures.length} leases`);
  }

  #requireLock(): void {
    try {
      this.#lock.requireHeld();
    } catch (error) {
      throw asUnopened(this.#folder, error);
    }
  }

  /**
   * Ends the lease of an address.
   *
   * @throws {CniError} 5 if it cannot be ended
   */
  takeBack(ip: Ip): void {
    this.#folder.remove(ip.toString());
  }

  /**
   * Reads the last address handed out from a range set.
   *
   * @returns Undefined if it is unknown or malformed
   * @throws {CniError} 5 if it cannot be read
   */
  lastReserved(rangeSet: number): Ip | undefined {
    const name = lastReservedName(rangeSet);
    // A missing file is not read: failing calls take long in Deno.
    if (this.#folder.listIfSmall()?.has(name) === false) return undefined;
    return findIp(this.#folder.read(name) ?? "");
  }

  /**
   * Saves the last address handed out from a range set.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  setLastReserved(rangeSet: number, ip: Ip): void {
    this.#folder.replace(lastReservedName(rangeSet), ip.toString());
  }

  /** Unlocks the leases. */
  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
    this.#lock[Symbol.dispose]();
  }
}

function asUnopened({ path }: LeaseFolder, error: unknown): unknown {
  // Error 11: others keep the lock.
  if (error instanceof CniError) return error;
  return new CniError(
    ErrorCode.IoFailure,
    `Cannot open the lease folder "${path}"`,
    { cause: error },
  );
}
