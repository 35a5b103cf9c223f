/**
 * The leases of names: the persistent addresses of a network's pods, and the last
 * sandboxes that had them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import type { Ip } from "../../net/ip.ts";
import {
  findIp,
  formatOwner,
  formatPersistent,
  type Lease,
  type PodName,
} from "./lease.ts";
import type { LeaseFiles } from "./lease_files.ts";
import {
  identifySandbox,
  isSandboxThere,
  NameFiles,
  type NameRecord,
} from "./name_files.ts";

/** The leases of a network's names. Use them only while the network is locked. */
export class LeasesOfNames {
  readonly #files: LeaseFiles;
  readonly #names: NameFiles;

  /** @param files The files of the network */
  constructor(files: LeaseFiles) {
    this.#files = files;
    this.#names = new NameFiles(files.path);
  }

  /**
   * Lists the leases of a name: its persistent addresses, and the addresses of
   * its last sandbox, if that disappeared without a DEL.
   *
   * @param owner The name's next sandbox
   * @throws {CniError} 11 if the last sandbox still exists, 5 if the leases cannot
   *   be read
   */
  leasesOfName(name: PodName, owner: AttachmentId): Lease[] {
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
    if (first !== undefined && isSandboxThere(record.sandbox)) {
      throw new CniError(
        ErrorCode.TryAgainLater,
        `${first.ip} is reserved for pod "${name.namespace}/${name.pod}", and ` +
          `its container "${record.containerId}" holds it until its DEL`,
        { details: `"${record.sandbox.netns}" exists` },
      );
    }
    return [...persistent, ...left];
  }

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
   * Records which leases a name has, and the sandbox that has them.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  record(
    name: PodName,
    owner: AttachmentId & { readonly netns: string },
    ips: readonly Ip[],
  ): void {
    this.#names.write(name, {
      containerId: owner.containerId,
      ifName: owner.ifName,
      ips: ips.map(String),
      sandbox: identifySandbox(owner.netns),
    });
  }

  /** Finds the record of a name. */
  find(name: PodName): NameRecord | undefined {
    return this.#names.find(name);
  }

  /** Finds the name of the sandbox that has the leases with a content. */
  ofOwner(content: string): PodName | undefined {
    return this.#namesByOwner.get(content);
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

  /** Forgets names that no longer have a lease. Never throws. */
  prune(): void {
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
