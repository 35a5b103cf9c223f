/**
 * Evidence that containers are alive: namespaces, their addresses, processes
 * and cached attachments. It needs no container runtime.
 *
 * @module
 */

import { leadsToSandbox } from "../../../cni/call/netns_existence.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import type {
  Evidence,
  FoundLease,
  OrphanOwner,
  Reason,
} from "../../../metadata/orphans.ts";
import {
  AttachmentCache,
  type CachedAttachment,
} from "../../../libcni/cache.ts";
import { netnsOf, resultOf } from "../../../libcni/cached_result.ts";
import type { Ip } from "../../../net/ip.ts";
import { listContainerIds } from "./containers.ts";
import {
  listNamespaceAddresses,
  LONG_ID,
  type NamespaceAddresses,
  type Processes,
  readProcesses,
} from "./processes.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { findLinkOwner } from "../owner/attachment.ts";

export { netnsOf };

/** Options of the search for evidence. */
export interface EvidenceOptions {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** Directories with caches of attachments. */
  readonly caches: readonly string[];
  /** The leases of all networks. */
  readonly leases: readonly FoundLease[];
  /** Younger orphans are kept, in ms. */
  readonly graceMs: number;
  /** How many addresses of containers are read; 262 144 by default. */
  readonly mostAddresses?: number;
}

/** The living containers of this node, at one time. */
export class NodeEvidence implements Evidence {
  readonly #hostNetns: string;
  readonly #hostId: string | undefined;
  readonly #graceMs: number;
  /** The containers that are attached, run a plugin, or are known to a runtime. */
  readonly #known: Set<string>;
  /** The same, sorted when a truncated ID is first looked up. */
  #sorted: readonly string[] | undefined;
  readonly #dead = new Map<string, string>();
  readonly #addresses: Set<string>;
  /** How many namespaces have an address. */
  readonly #uses: Map<string, number>;
  /** The living containers that are known to have an address. */
  readonly #holders = new Map<string, Set<string>>();
  readonly #processes: Processes;
  /**
   * What could not be read, because there is too much of it; undefined if all was read.
   * Otherwise no container is known to be deleted.
   */
  readonly unread: string | undefined;

  /**
   * Looks at all processes, namespaces and cached attachments.
   *
   * @throws {Error} If some processes or namespaces cannot be looked at
   */
  static async gather(options: EvidenceOptions): Promise<NodeEvidence> {
    const hostId = findFileId(options.hostNetns);
    const processes = await readProcesses();
    const addresses = await listNamespaceAddresses(
      processes.namespaces,
      hostId,
      options.mostAddresses,
    );
    return new NodeEvidence(options, processes, addresses);
  }

  private constructor(
    { hostNetns, caches, leases, graceMs }: EvidenceOptions,
    processes: Processes,
    addresses: NamespaceAddresses,
  ) {
    this.#hostNetns = hostNetns;
    this.#hostId = findFileId(hostNetns);
    this.#graceMs = graceMs;
    this.#processes = processes;
    let unread = processes.unread ?? addresses.unread;
    this.#known = new Set([
      ...processes.plugins.map(({ container }) => container),
      // The containers that runtimes have, also without a process.
      ...listContainerIds(processes.roots, (path) => {
        unread ??= `"${path}" is too large`;
      }),
    ]);
    this.unread = unread;
    const used = addresses.ips.map(String);
    this.#addresses = new Set(used);
    this.#uses = new Map(
      [...Map.groupBy(used, (ip) => ip)].map(([ip, all]) => [ip, all.length]),
    );
    const hostEnds = findHostEnds(hostNetns);
    for (const id of hostEnds.containers) this.#known.add(id);
    for (const attachment of eachCached(caches)) {
      const { containerId, since } = attachment;
      const netns = netnsOf(attachment);
      const isAlive = this.isYoung(since) || this.isAlive(netns) ||
        hasHostEnd(attachment, hostEnds);
      if (!isAlive) {
        if (netns !== "") this.#dead.set(containerId, netns);
        continue;
      }
      this.#known.add(containerId);
      for (const ip of cachedAddressesOf(attachment)) {
        this.#addresses.add(String(ip));
        this.#noteHolder(String(ip), containerId);
      }
    }
    for (const { container, address, since } of leases) {
      const isLive = this.isYoung(since) || this.#addresses.has(address);
      if (!isLive) continue;
      this.#known.add(container);
      this.#noteHolder(address, container);
    }
    // A virtual machine has its address inside, where no namespace shows it.
    for (const { container, address } of leases) {
      if (this.#isKnown({ container })) this.#addresses.add(address);
    }
  }

  #noteHolder(address: string, container: string): void {
    const holders = this.#holders.get(address) ?? new Set();
    this.#holders.set(address, holders.add(container));
  }

  /** Returns the containers to which each use of an address is known to belong. */
  #findHolders(ip: Ip): string[] {
    const holders = this.#holders.get(String(ip)) ?? new Set();
    return holders.size >= (this.#uses.get(String(ip)) ?? 0)
      ? [...holders]
      : [];
  }

  /**
   * Reports whether a file was written within the grace period. A time far in the future
   * says nothing: the clock was wrong when the file was written.
   */
  isYoung(since: Date): boolean {
    return Math.abs(Date.now() - since.getTime()) < this.#graceMs;
  }

  /** Whether it has seen all processes of the node. */
  get isWhole(): boolean {
    return this.#processes.areAll;
  }

  /** Whether root is running a CNI plugin on this host, of any program. */
  get isBusy(): boolean {
    return this.#processes.plugins.some(({ namespaceId }) =>
      namespaceId === this.#hostId
    );
  }

  /**
   * Reports whether a path leads to the namespace of some container, or cannot be read:
   * caches and records of the Go plugins do not have which one it was.
   */
  isAlive(netns: string): boolean {
    if (netns === "") return false;
    // Other mount namespaces may have what this one lacks.
    return leadsToSandbox(netns, this.#hostNetns) !== false ||
      this.#processes.roots
        .some((root) => leadsToSandbox(root + netns, this.#hostNetns));
  }

  /**
   * Finds the reason why an orphan's container is known to be deleted.
   *
   * @returns Undefined if it is alive, or there is no evidence
   */
  findReason(owner: OrphanOwner): Reason | undefined {
    if (this.unread !== undefined) return undefined;
    const { container = "", addresses = [], netns = "", since } = owner;
    if (since !== undefined && this.isYoung(since)) return undefined;
    if (netns !== "" && this.isAlive(netns)) return undefined;
    if (container !== "" && this.#isKnown(owner)) return undefined;
    const used = addresses.filter((ip) => this.#addresses.has(String(ip)));
    // A container without an ID may be any of the holders.
    const others = used.map((ip) => container ? this.#findHolders(ip) : []);
    if (others.some(({ length }) => length === 0)) return undefined;
    const gone = netns || this.#dead.get(container);
    if (gone) return { why: `namespace ${gone} was deleted` };
    if (used.length > 0) {
      const containers = others.flat().join(", ");
      return { why: `${used.join(", ")} belongs to container ${containers}` };
    }
    if (addresses.length > 0) {
      return { why: `no namespace has ${addresses.join(", ")}` };
    }
    return container === ""
      ? undefined
      : { why: "no process or attachment of the container" };
  }

  /** Reports whether a container is attached, or named by a process. */
  #isKnown({ container = "", isTruncated = false }: OrphanOwner): boolean {
    if (this.#known.has(container)) return true;
    if (isTruncated) {
      this.#sorted ??= [...this.#known].sort();
      if (hasPrefix(this.#sorted, container)) return true;
    }
    const { words } = this.#processes;
    return container.length >= LONG_ID &&
      (words.has(container) ||
        words.values().some((word) => word.includes(container)));
  }
}

/** Reports whether one of sorted texts begins with a prefix. */
export function hasPrefix(sorted: readonly string[], prefix: string): boolean {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? "") < prefix) low = middle + 1;
    else high = middle;
  }
  return sorted[low]?.startsWith(prefix) === true;
}

/**
 * Reports whether a host end of an attachment's veths is left: the other end is
 * as well.
 */
function hasHostEnd(
  attachment: CachedAttachment,
  { containers, names }: HostEnds,
): boolean {
  if (containers.has(attachment.containerId)) return true;
  return resultOf(attachment)?.interfaces
    .some(({ name, sandbox }) => !sandbox && names.has(name)) ?? false;
}

/** Lists the addresses of a cached result; empty if it cannot be decoded. */
export function cachedAddressesOf(attachment: CachedAttachment): Ip[] {
  return resultOf(attachment)?.ips.map(({ address }) => address.ip) ?? [];
}

/** The host's ends of veths that lead into other namespaces, which are alive. */
interface HostEnds {
  readonly names: ReadonlySet<string>;
  /** The containers that their aliases name. */
  readonly containers: ReadonlySet<string>;
}

/**
 * Finds the host's ends of veths. Unlike processes and mounts, they also show
 * namespaces that are hidden from this process.
 */
function findHostEnds(hostNetns: string): HostEnds {
  using host = Rtnl.open(hostNetns);
  const ends = host.link.list({ kind: "veth" })
    .filter(({ linkNsid }) => linkNsid !== undefined);
  return {
    names: new Set(ends.map(({ name }) => name)),
    containers: new Set(
      ends.flatMap((end) => findLinkOwner(end)?.containerId ?? []),
    ),
  };
}

/**
 * Reads the cached attachments of several directories, one after the other.
 *
 * @param containerId Of this container only, unless empty
 */
export function eachCached(
  directories: readonly string[],
  containerId = "",
): IteratorObject<CachedAttachment> {
  return directories.values().flatMap((directory) =>
    new AttachmentCache(directory).eachAttachment(containerId)
  );
}
