/**
 * Finds what containers that are gone have left on the node: leases, cached
 * attachments, records, locks, links, and rules of nftables and iptables, ours
 * and the Go plugins'. It asks no container runtime.
 *
 * A leftover counts only if its container is proven to be gone:
 *
 * - No cached attachment of the container has a namespace that exists, or a veth
 *   on the host that leads into one.
 * - No lease of the container is for an address that a namespace has.
 * - No process names the container: in its command line or control group, as
 *   shims and pod processes do, or in its environment, as CNI plugins do.
 * - No network namespace but the host's has one of the leftover's addresses.
 * - It is older than the grace period, if it has a time.
 *
 * Everything else stays: what does not tell its container or address, and what
 * another program has made.
 *
 * @module
 */

import { findAttachments } from "./attachments.ts";
import { Evidence } from "./evidence.ts";
import { findInIptables } from "./iptables.ts";
import { findLeases, listFoundLeases } from "./leases.ts";
import { findLinks } from "./links.ts";
import { findInNftables } from "./nftables.ts";
import type { Orphan } from "./orphan.ts";
import { findRecords } from "./records.ts";
import {
  listCached,
  listCacheFolders,
  listStateFolders,
  type OrphanSearch,
  type StateFolders,
} from "./search.ts";

export type { Orphan, OrphanKind } from "./orphan.ts";
export type { OrphanSearch } from "./search.ts";

/** Younger leftovers are kept by default, in ms: a pod may be attached right now. */
export const GRACE_MS = 5 * 60_000;

/**
 * Lists the leftovers of containers that are gone, attachments first: their
 * removal removes most of the others. Changes nothing.
 *
 * Hold the locks of {@linkcode listLockFolders} to remove them.
 *
 * @throws {Error} If it cannot look at all processes and namespaces
 */
export async function findOrphans(search: OrphanSearch): Promise<Orphan[]> {
  const folders = listStateFolders(search);
  const renew = (): Evidence => gatherEvidence(search, folders);
  const scene = { ...search, folders, evidence: renew(), renew };
  return withoutDuplicates([
    ...findAttachments(scene),
    ...await findLeases(scene),
    ...findRecords(scene),
    ...findLinks(scene),
    ...await findInNftables(scene),
    ...await findInIptables(scene),
  ]);
}

function gatherEvidence(
  search: OrphanSearch,
  folders: StateFolders,
): Evidence {
  return new Evidence({
    hostNetns: search.hostNetns,
    graceMs: search.graceMs,
    cached: listCached(listCacheFolders(search, folders)),
    leases: listFoundLeases(folders.leases),
  });
}

/** Some chains are found by netlink and by a program. */
function withoutDuplicates(orphans: readonly Orphan[]): Orphan[] {
  return [
    ...new Map(orphans.map((one) => [identify(one), one])).values(),
  ];
}

/** Returns a text that two searches give to the same leftover. */
export function identify({ kind, where, container }: Orphan): string {
  return `${kind} ${where} ${container}`;
}

/** Lists the cache folders whose operations must not run during a removal. */
export function listLockFolders(search: OrphanSearch): string[] {
  return listCacheFolders(search, listStateFolders(search));
}
