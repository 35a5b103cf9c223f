/**
 * Addresses that are kept without a container:
 *
 * - persistent addresses, for the next container of a pod's name
 * - addresses that are set aside, because another machine has them
 *
 * If a range is full, both kinds can be reassigned.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { leadsToNetns } from "../../../cni/call/netns_existence.ts";
import { type AttachmentId, SET_ASIDE_MS } from "../../../cni/config/types.ts";
import type { Ip } from "../../../net/ip.ts";
import type { Mac } from "../../../net/mac.ts";
import {
  findIp,
  formatOwner,
  formatPersistent,
  formatSetAside,
  type Lease,
  parsePersistent,
  parseSetAside,
  type PodName,
} from "../lease.ts";
import type { LeaseFiles } from "../lease_files.ts";
import { identifySandbox, NameFiles } from "./name_files.ts";
import type { Retention } from "./retention.ts";

/** The owner of new leases. */
export interface LeaseOwner extends AttachmentId {
  /** Path of the sandbox's namespace. */
  readonly netns?: string;
}

/** The kept addresses of a network. Use them only while the network is locked. */
export class KeptAddresses {
  readonly #files: LeaseFiles;
  readonly #names: NameFiles;
  readonly #retention: Retention;

  /** @param files The files of the network */
  constructor(files: LeaseFiles, retention: Retention) {
    this.#files = files;
    this.#names = new NameFiles(files.path);
    this.#retention = retention;
  }

  /**
   * Finds the addresses of the call's pod, and records them for its new sandbox: its
   * persistent addresses, and the addresses of its last sandbox, if that disappeared
   * without a DEL. Until the owner leases them, they are persistent, so that the next
   * ADD finds them after a crash at any time.
   *
   * @throws {CniError} 11 if the last sandbox still exists, 5 if the leases cannot
   *   be read or written
   */
  claim(owner: LeaseOwner): Lease[] {
    const { name } = this.#retention;
    if (name === undefined) return [];
    const persistent = this.#leasesOf(name, owner)
      .map((lease) => this.makePersistent(lease, name));
    if (persistent.length > 0) this.record(owner, persistent);
    return persistent;
  }

  #leasesOf(name: PodName, owner: AttachmentId): Lease[] {
    const record = this.#names.find(name);
    const ips = record?.ips.filter((ip) => findIp(ip) !== undefined) ?? [];
    const isKnown = ({ ip }: Lease): boolean => ips.includes(String(ip));
    const persistent = this.#files.leasesWith(formatPersistent(name))
      .sort((one, other) => Number(isKnown(other)) - Number(isKnown(one)));
    if (record === undefined || record.containerId === owner.containerId) {
      return persistent;
    }
    const left = this.#files.leasesWith(formatOwner(record)).filter(isKnown);
    const [first] = left;
    const { netns, id, boot } = record.sandbox;
    if (first !== undefined && leadsToNetns(netns, id, boot)) {
      throw new CniError(
        ErrorCode.TryAgainLater,
        `${first.ip} is reserved for pod "${name.namespace}/${name.pod}", and ` +
          `its container "${record.containerId}" holds it until its DEL`,
        { details: `"${netns}" exists` },
      );
    }
    return [...persistent, ...left];
  }

  /**
   * Records which leases the call's pod has, and the sandbox that has them.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  record(
    { containerId, ifName, netns = "" }: LeaseOwner,
    leases: readonly Pick<Lease, "ip">[],
  ): void {
    const { name } = this.#retention;
    if (name === undefined) return;
    const ips = leases.map(({ ip }) => String(ip));
    const sandbox = identifySandbox(netns);
    this.#names.write(name, { containerId, ifName, ips, sandbox });
  }

  /**
   * Returns a function that finds the name that keeps the address of an ending lease:
   * none if the name already has another sandbox.
   *
   * @param isOfCall Whether the leases are of the call's pod
   */
  keeperTest(isOfCall: boolean): (lease: Lease) => PodName | undefined {
    const { persistentMs, name } = this.#retention;
    if (persistentMs === 0) return () => undefined;
    if (!isOfCall || name === undefined) {
      return ({ content }) => this.#namesByOwner.get(content);
    }
    const record = this.#names.find(name);
    return ({ content }) =>
      record === undefined || formatOwner(record) === content
        ? name
        : undefined;
  }

  /** The names by the content of their sandboxes' leases. */
  get #namesByOwner(): ReadonlyMap<string, PodName> {
    return this.#knownNames ??= new Map(
      this.#names.list().map(([name, record]) => [
        formatOwner(record),
        name,
      ]),
    );
  }
  #knownNames: ReadonlyMap<string, PodName> | undefined;

  /**
   * Makes a lease persistent for a name, unless it already is.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  makePersistent(lease: Lease, name: PodName): Lease {
    const content = formatPersistent(name);
    if (lease.content === content) return lease;
    this.#files.replaceLease(lease.ip.toString(), content);
    return { ...lease, content };
  }

  /**
   * Records the addresses of the call's pod if it has no record, because it is from
   * before the key `stay`.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  recordUnknown(leases: readonly Lease[]): void {
    const { persistentMs, name } = this.#retention;
    const isKnown = persistentMs === 0 || name === undefined ||
      this.#names.find(name) !== undefined;
    if (isKnown || leases.length === 0) return;
    this.record({ containerId: "", ifName: name.ifName }, leases);
  }

  /**
   * Sets the address of a lease aside: for a time, ADD takes it only if no other
   * address is free.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  setAside({ ip }: Pick<Lease, "ip">, mac: Mac): void {
    this.#files.replaceLease(ip.toString(), formatSetAside(mac));
  }

  /** Lists the addresses that are set aside. */
  listSetAside(): Lease[] {
    return this.#list(parseSetAside).filter((lease) => !this.#isExpired(lease));
  }

  /** Lists the addresses that were kept long enough. */
  listExpired(): Lease[] {
    return [parsePersistent, parseSetAside].flatMap((parse) =>
      this.#list(parse).filter((lease) => this.#isExpired(lease))
    );
  }

  /**
   * Finds the persistent address that has been unused for the longest time or, without
   * such an address, the address that has been set aside for the longest time.
   *
   * @throws {CniError} 5 if the leases cannot be read
   */
  findOldest(isWanted: (ip: Ip) => boolean): Lease | undefined {
    const findIn = (leases: readonly Lease[]): Lease | undefined =>
      leases.filter(({ ip }) => isWanted(ip))
        .map((lease) => ({ lease, ms: this.#sinceMs(lease.ip) }))
        .sort((one, other) => one.ms - other.ms)[0]?.lease;
    return findIn(this.#list(parsePersistent)) ??
      findIn(this.#list(parseSetAside));
  }

  /** Lists the leases whose content can be parsed. */
  #list(parse: (content: string) => unknown): Lease[] {
    return [...this.#files.list().entries()]
      .filter(([, content = ""]) => parse(content) !== undefined)
      .flatMap((entry) => this.#files.toLease(...entry));
  }

  /**
   * Reports whether ADD may lease a kept address before the range is full.
   *
   * @param isRequested Whether no other address will do: then it may be set aside
   */
  mayLease(
    lease: Pick<Lease, "ip" | "content">,
    isRequested: boolean,
  ): boolean {
    return isRequested && parseSetAside(lease.content) !== undefined ||
      this.#isExpired(lease);
  }

  #isExpired({ ip, content }: Pick<Lease, "ip" | "content">): boolean {
    const ageMs = (): number => Date.now() - this.#sinceMs(ip);
    if (parseSetAside(content) !== undefined) {
      // The clock might have been set back.
      return Math.abs(ageMs()) >= SET_ASIDE_MS;
    }
    if (parsePersistent(content) === undefined) return false;
    const { persistentMs } = this.#retention;
    return persistentMs === 0 || ageMs() >= persistentMs;
  }

  #sinceMs(ip: Ip): number {
    return this.#files.writtenMs(ip.toString()) ?? 0;
  }

  /** Forgets names that no longer have a lease. Never throws. */
  pruneNames(): void {
    this.#names.prune((name, record) =>
      record.ips.some((ip) =>
        // A lease that cannot be read might belong to the name.
        ifPossible(() => {
          const content = this.#files.read(ip);
          return content === formatPersistent(name) ||
            content === formatOwner(record);
        }) ?? true
      )
    );
  }
}
