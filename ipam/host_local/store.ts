/**
 * The locked leases of a network: the owner of each address.
 *
 * @module
 */

import { type AttachmentId, SET_ASIDE_MS } from "../../cni/config/types.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isUnreachable, isWritingRefused } from "../../base/files/io.ts";
import type { FileLock } from "../../base/files/lock.ts";
import { throwAll } from "../../base/rollback.ts";
import type { Ip } from "../../net/ip.ts";
import type { Mac } from "../../net/mac.ts";
import {
  type DatedLease,
  describeOwner,
  findIp,
  formatContainer,
  formatOwner,
  formatPersistent,
  formatSetAside,
  type Lease,
  parsePersistent,
  parseSetAside,
  type PodName,
} from "./lease.ts";
import {
  isBlank,
  lastReservedName,
  LeaseFiles,
  type LeaseWait,
} from "./lease_files.ts";
import { LeasesOfNames } from "./leases_of_names.ts";

/**
 * The leases of a network, locked until disposal. On a read-only file system,
 * they can be read without the lock.
 */
export class LeaseStore implements Disposable {
  /** The leases of names. */
  readonly names: LeasesOfNames;
  readonly #files: LeaseFiles;
  readonly #persistentMs: number;
  readonly #lock: FileLock | undefined;
  /** Why nothing can be changed if nothing is locked. */
  readonly #refusal: unknown;

  private constructor(
    files: LeaseFiles,
    persistentMs: number,
    lock: FileLock | undefined,
    refusal?: unknown,
  ) {
    this.#files = files;
    this.#persistentMs = persistentMs;
    this.names = new LeasesOfNames(files);
    this.#lock = lock;
    this.#refusal = refusal;
  }

  /**
   * Opens and locks the leases of a network. Creates the directory if necessary.
   *
   * @param persistentMs How long a name keeps an unused address
   * @throws {CniError} 5 if the directory cannot be created or written to, 11 if
   *   others keep the lock
   */
  static async open(
    dataDir: string,
    network: string,
    wait?: LeaseWait,
    persistentMs = 0,
  ): Promise<LeaseStore> {
    const files = new LeaseFiles(dataDir, network, wait?.log);
    try {
      let lock = await unlessUnreachable(files.lock(wait));
      if (lock === undefined) {
        files.create();
        lock = await files.lock(wait);
      }
      return new LeaseStore(files, persistentMs, lock);
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
   * @param persistentMs How long a name keeps an unused address
   * @throws {CniError} 5 if the directory exists and cannot be locked for another
   *   reason, 11 if others keep the lock
   */
  static async find(
    dataDir: string,
    network: string,
    wait?: LeaseWait,
    persistentMs = 0,
  ): Promise<LeaseStore | undefined> {
    const files = new LeaseFiles(dataDir, network, wait?.log);
    try {
      const lock = await unlessUnreachable(files.lock(wait));
      return lock && new LeaseStore(files, persistentMs, lock);
    } catch (refusal) {
      if (!isWritingRefused(refusal)) throw asUnopened(files, refusal);
      const lock = await unlessUnreachable(files.lockToRead(wait))
        .catch((error) => {
          throw asUnopened(files, error);
        });
      return new LeaseStore(files, persistentMs, lock, refusal);
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
   * Lists the leases of all other owners, without addresses that are set aside. A lease
   * with only the container's ID belongs to all owners of that container.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  leasesOfOthers(owners: readonly AttachmentId[]): Lease[] {
    const known = new Set<string | undefined>(owners.flatMap((owner) => [
      formatOwner(owner),
      formatContainer(owner.containerId),
    ]));
    return [...this.#files.listAll().entries()]
      .filter(([, content = ""]) =>
        !known.has(content) && parseSetAside(content) === undefined
      )
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
   * Finds the persistent lease that has been unused for the longest time or, without
   * such a lease, the address that has been set aside for the longest time.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  findOldestUnused(isWanted: (ip: Ip) => boolean): Lease | undefined {
    return this.#findOldest(parsePersistent, isWanted) ??
      this.#findOldest(parseSetAside, isWanted);
  }

  #findOldest(
    parse: (content: string) => unknown,
    isWanted: (ip: Ip) => boolean,
  ): Lease | undefined {
    const sinceMs = ({ ip }: Lease): number =>
      this.#files.writtenMs(ip.toString()) ?? 0;
    return this.#listParsed(parse)
      .filter(({ ip }) => isWanted(ip))
      .map((lease) => ({ lease, ms: sinceMs(lease) }))
      .sort((one, other) => one.ms - other.ms)[0]?.lease;
  }

  /** Lists the leases whose content can be parsed. */
  #listParsed(parse: (content: string) => unknown): Lease[] {
    return [...this.#files.list().entries()]
      .filter(([, content = ""]) => parse(content) !== undefined)
      .flatMap((entry) => this.#files.toLease(...entry));
  }

  /**
   * Sets the address of a lease aside, because a different machine has it: for a time,
   * ADD takes it only if no other address is free.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  setAside({ ip }: Pick<Lease, "ip">, mac: Mac): void {
    this.#files.replaceLease(ip.toString(), formatSetAside(mac));
  }

  /**
   * Releases the addresses that have been set aside long enough, and lists the
   * remaining addresses that are set aside.
   *
   * @throws {CniError} 5 if an address cannot be released
   */
  listSetAside(): Lease[] {
    const { over = [], left = [] } = Object.groupBy(
      this.#listParsed(parseSetAside),
      ({ ip }) => this.#isSetAsideOver(ip.toString()) ? "over" : "left",
    );
    this.release(over);
    return left;
  }

  #isSetAsideOver(address: string): boolean {
    const sinceMs = this.#files.writtenMs(address) ?? 0;
    // The clock might have been set back.
    return Math.abs(Date.now() - sinceMs) >= SET_ASIDE_MS;
  }

  /**
   * Ends leases of containers. The addresses of a name are kept for it, unless
   * it already has another sandbox.
   *
   * @param known The name, if the caller has it
   * @throws {CniError} 5 if a lease cannot be written
   * @throws {AggregateError} If several leases cannot be written
   */
  releaseOrMakePersistent(leases: readonly Lease[], known?: PodName): void {
    const record = known && this.names.find(known);
    const nameOf = ({ content }: Lease): PodName | undefined => {
      if (known === undefined) return this.names.ofOwner(content);
      const isLast = record === undefined || formatOwner(record) === content;
      return isLast ? known : undefined;
    };
    const ended = leases.map((lease) => ({
      lease,
      name: nameOf(lease),
    }));
    this.#change(
      ended,
      ({ lease: { ip }, name }) =>
        name === undefined
          ? this.removeLease(ip)
          : this.#files.replaceLease(ip.toString(), formatPersistent(name)),
    );
    const [first] = leases;
    if (known === undefined || record !== undefined || !first) return;
    const owner = { containerId: "", ifName: known.ifName, netns: "" };
    this.names.record(known, owner, leases.map(({ ip }) => ip));
  }

  /**
   * Releases all leases except the leases of some owners, and the persistent
   * addresses of names whose time has not expired.
   *
   * @throws {CniError} 5 if one cannot be ended
   * @throws {AggregateError} If several cannot
   */
  collect(valid: readonly AttachmentId[]): void {
    this.listSetAside();
    const others = this.leasesOfOthers(valid);
    if (this.#persistentMs === 0) return this.release(others);
    const isPersistent = ({ content }: Lease): boolean =>
      parsePersistent(content) !== undefined;
    this.releaseOrMakePersistent(
      others.filter((lease) => !isPersistent(lease)),
    );
    this.release(
      others.filter((lease) =>
        isPersistent(lease) && this.#isOver(lease.ip.toString())
      ),
    );
  }

  /** Forgets names that no longer have a lease. Never throws. */
  pruneNames(): void {
    if (this.#lock !== undefined) this.names.prune();
  }

  /**
   * Leases an address.
   *
   * @param isRequested Whether no other address will do: then it may be set aside
   * @returns False if the address is leased
   * @throws {CniError} 5 if the lease cannot be written
   */
  reserve(ip: Ip, owner: AttachmentId, isRequested = false): boolean {
    const address = ip.toString(), content = formatOwner(owner);
    const isFree = (found: string): boolean =>
      this.#isFree(address, found) ||
      isRequested && parseSetAside(found) !== undefined;
    const listed = this.#files.list().get(address);
    if (listed !== undefined && !isFree(listed)) return false;
    return this.#files.addLease(address, content, isFree);
  }

  /** A persistent or set aside address is also free when its time has expired. */
  #isFree(address: string, content: string): boolean {
    return isBlank(content) ||
      parseSetAside(content) !== undefined && this.#isSetAsideOver(address) ||
      parsePersistent(content) !== undefined && this.#isOver(address);
  }

  #isOver(address: string): boolean {
    const sinceMs = this.#files.writtenMs(address) ?? 0;
    return this.#persistentMs === 0 ||
      Date.now() - sinceMs >= this.#persistentMs;
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
   * Ends leases that still exist. If a lease cannot be ended, the other leases still
   * are.
   *
   * @throws {CniError} 5 if a lease cannot be ended
   * @throws {AggregateError} If several cannot
   */
  release(leases: readonly Lease[]): void {
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

/** Returns undefined if opening a file fails because its directory does not exist. */
async function unlessUnreachable<T>(
  opening: Promise<T>,
): Promise<T | undefined> {
  try {
    return await opening;
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
