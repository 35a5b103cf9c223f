/**
 * The locked leases of a network: the owner of each address.
 *
 * @module
 */

import type { AttachmentId } from "../../cni/config/types.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isUnreachable, isWritingRefused } from "../../base/files/io.ts";
import type { FileLock } from "../../base/files/lock.ts";
import { throwAll } from "../../base/rollback.ts";
import type { Ip } from "../../net/ip.ts";
import { KeptAddresses } from "./kept/kept_addresses.ts";
import { type Retention, UNLIMITED } from "./kept/retention.ts";
import {
  type DatedLease,
  describeOwner,
  findIp,
  formatContainer,
  formatOwner,
  isOfLink,
  type Lease,
  type PodName,
} from "./lease.ts";
import {
  isBlank,
  lastReservedName,
  LeaseFiles,
  type LeaseWait,
} from "./lease_files.ts";

/**
 * The leases of a network, locked until disposal. On a read-only file system,
 * they can be read without the lock.
 */
export class LeaseStore implements Disposable {
  /** The addresses that are kept without a container. */
  readonly kept: KeptAddresses;
  readonly #files: LeaseFiles;
  readonly #lock: FileLock | undefined;
  /** Why nothing can be changed if nothing is locked. */
  readonly #refusal: unknown;

  private constructor(
    files: LeaseFiles,
    retention: Retention,
    lock: FileLock | undefined,
    refusal?: unknown,
  ) {
    this.#files = files;
    this.kept = new KeptAddresses(files, retention);
    this.#lock = lock;
    this.#refusal = refusal;
  }

  /**
   * Opens and locks the leases of a network. Creates the directory if necessary.
   *
   * @param retention How long addresses are kept
   * @throws {CniError} 5 if the directory cannot be created or written to, 11 if
   *   others keep the lock
   */
  static async open(
    dataDir: string,
    network: string,
    wait?: LeaseWait,
    retention: Retention = UNLIMITED,
  ): Promise<LeaseStore> {
    const files = new LeaseFiles(dataDir, network, wait?.log);
    try {
      let lock = await lockIfThere(files.lock(wait));
      if (lock === undefined) {
        files.create();
        lock = await files.lock(wait);
      }
      return new LeaseStore(files, retention, lock);
    } catch (error) {
      throw asUnopened(files, error);
    }
  }

  /**
   * Opens and locks the leases of a network if there are any, for a caller that
   * may have nothing to write. If the lock's file cannot be opened for writing,
   * as on a read-only file system, it is opened for reading. If it does not exist
   * either, nothing is locked, and the leases may still be read: a caller that
   * cannot create files there cannot remove any.
   *
   * @param retention How long addresses are kept
   * @throws {CniError} 5 if the directory exists and cannot be locked for another
   *   reason, 11 if others keep the lock
   */
  static async find(
    dataDir: string,
    network: string,
    wait?: LeaseWait,
    retention: Retention = UNLIMITED,
  ): Promise<LeaseStore | undefined> {
    const files = new LeaseFiles(dataDir, network, wait?.log);
    try {
      const lock = await lockIfThere(files.lock(wait));
      return lock && new LeaseStore(files, retention, lock);
    } catch (refusal) {
      if (!isWritingRefused(refusal)) throw asUnopened(files, refusal);
      const lock = await lockIfThere(files.lockToRead(wait))
        .catch((error) => {
          throw asUnopened(files, error);
        });
      return new LeaseStore(files, retention, lock, refusal);
    }
  }

  /** Path of the directory. */
  get path(): string {
    return this.#files.path;
  }

  /** Whether no address was allocated since the directory was created. */
  get isUnused(): boolean {
    return !this.#files.list().has(lastReservedName(0));
  }

  /**
   * Lists the leases of an owner. Leases with only the container's ID count
   * only if no lease names the interface as well.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOf(owner: AttachmentId): Lease[] {
    const exact = this.#files.leasesWith(formatOwner(owner));
    if (exact.length > 0) return exact;
    return this.#files.leasesWith(formatContainer(owner.containerId));
  }

  /**
   * Lists the leases that name an owner's container and interface.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  datedLeasesOf(owner: AttachmentId): DatedLease[] {
    return this.#files.leasesWith(formatOwner(owner)).flatMap((lease) => {
      const writtenMs = this.#files.writtenMs(lease.ip.toString());
      return writtenMs === undefined ? [] : [{ ...lease, writtenMs }];
    });
  }

  /**
   * Lists the leases of all other containers' attachments. A lease with only the
   * container's ID belongs to all attachments of that container.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOfOthers(owners: readonly AttachmentId[]): Lease[] {
    const known = new Set<string | undefined>(owners.flatMap((owner) => [
      formatOwner(owner),
      formatContainer(owner.containerId),
    ]));
    return [...this.#files.listAll().entries()]
      .filter(([, content = ""]) => !known.has(content) && !isOfLink(content))
      .flatMap((entry) => this.#files.toLease(...entry));
  }

  /**
   * Gives a lease to an attachment, whichever owner has it.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  assignLease({ ip }: Pick<Lease, "ip">, owner: AttachmentId): void {
    this.#files.replaceLease(ip.toString(), formatOwner(owner));
  }

  /**
   * Gives a lease back to its owner before {@linkcode LeaseStore.assignLease}.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  restoreLease({ ip, content, writtenMs }: Lease & Partial<DatedLease>): void {
    this.#files.replaceLease(ip.toString(), content, writtenMs);
  }

  /**
   * Ends leases of the call's pod or, for callers without a pod, of any containers. A
   * name keeps its persistent addresses.
   *
   * @throws {CniError} 5 if a lease cannot be ended
   * @throws {AggregateError} If several leases cannot be ended
   */
  release(leases: readonly Lease[]): void {
    this.#end(leases, this.kept.keeperTest(true));
    this.kept.recordUnknown(leases);
  }

  /**
   * Releases all leases except the leases of some owners, and kept addresses whose
   * time has expired.
   *
   * @throws {CniError} 5 if one cannot be ended
   * @throws {AggregateError} If several cannot
   */
  collect(valid: readonly AttachmentId[]): void {
    this.#end(this.leasesOfOthers(valid), this.kept.keeperTest(false));
    this.remove(this.kept.listExpired());
    if (this.#lock !== undefined) this.kept.pruneNames();
  }

  #end(
    leases: readonly Lease[],
    keeperOf: (lease: Lease) => PodName | undefined,
  ): void {
    this.#change(leases, (lease) => {
      const name = keeperOf(lease);
      if (name === undefined) this.removeLease(lease.ip);
      else this.kept.makePersistent(lease, name);
    });
  }

  /**
   * Leases an address.
   *
   * @param isRequested Whether no other address will do
   * @returns False if the address is leased
   * @throws {CniError} 5 if the lease cannot be written
   */
  reserve(ip: Ip, owner: AttachmentId, isRequested = false): boolean {
    const address = ip.toString(), content = formatOwner(owner);
    const isFree = (found: string): boolean =>
      isBlank(found) || this.kept.mayLease({ ip, content: found }, isRequested);
    const listed = this.#files.list().get(address);
    if (listed !== undefined && !isFree(listed)) return false;
    return this.#files.addLease(address, content, isFree);
  }

  /**
   * Describes the owner of an address that is not free.
   *
   * @throws {CniError} 5 if the lease cannot be read
   */
  describeLease(ip: Ip): string {
    const name = ip.toString();
    const content = this.#files.read(name) ?? "";
    return `"${this.#files.pathOf(name)}" belongs to ${describeOwner(content)}`;
  }

  /**
   * Removes leases, which no name keeps.
   *
   * @throws {CniError} 5 if a lease cannot be removed
   * @throws {AggregateError} If several cannot
   */
  remove(leases: readonly Lease[]): void {
    this.#change(leases, ({ ip }) => this.removeLease(ip));
  }

  /** Changes leases. If a lease cannot be changed, the other leases still are. */
  #change<T>(leases: readonly T[], change: (lease: T) => void): void {
    if (leases.length === 0) return;
    if (this.#lock === undefined) throw asUnopened(this.#files, this.#refusal);
    const failures: unknown[] = [];
    for (const lease of leases) {
      try {
        change(lease);
      } catch (error) {
        failures.push(error);
      }
    }
    throwAll(failures, `Cannot release ${failures.length} leases`);
  }

  /**
   * Ends the lease of an address.
   *
   * @throws {CniError} 5 if it cannot be ended
   */
  removeLease(ip: Ip): void {
    this.#files.remove(ip.toString());
  }

  /**
   * Reads the last address handed out from a range set.
   *
   * @returns Undefined if it is unknown, malformed, or cannot be read
   */
  lastReserved(rangeSet: number): Ip | undefined {
    const name = lastReservedName(rangeSet);
    // A missing file is not read: failing calls take long in Deno.
    if (!this.#files.list().has(name)) return undefined;
    return findIp(this.#files.find(name) ?? "");
  }

  /**
   * Saves the last address handed out from a range set.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  setLastReserved(rangeSet: number, ip: Ip): void {
    this.#files.replace(lastReservedName(rangeSet), ip.toString());
  }

  /** Unlocks the leases. */
  [Symbol.dispose](): void {
    this.#files[Symbol.dispose]();
    if (this.#lock !== undefined) this.#files.saveIndex();
    this.#lock?.[Symbol.dispose]();
  }
}

/** Waits for a lock; returns undefined if its directory does not exist. */
async function lockIfThere(
  locking: Promise<FileLock>,
): Promise<FileLock | undefined> {
  try {
    return await locking;
  } catch (error) {
    if (isUnreachable(error)) return undefined;
    throw error;
  }
}

function asUnopened({ path }: LeaseFiles, error: unknown): unknown {
  // Error 11: other processes hold the lock.
  if (error instanceof CniError) return error;
  return new CniError(
    ErrorCode.IoFailure,
    `Cannot open the lease directory "${path}"`,
    { cause: error },
  );
}
