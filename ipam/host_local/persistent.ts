/**
 * ADD with the persistent addresses of a name.
 *
 * @module
 */

import type { AttachmentId } from "../../cni/config/types.ts";
import { isIn, type Lease, type PodName } from "./lease.ts";
import type { LeaseStore } from "./store.ts";

/** The owner of new leases. */
export interface LeaseOwner extends AttachmentId {
  /** Path of the sandbox's namespace. */
  readonly netns?: string;
}

/**
 * Finds the leases of a name, and records them for the next owner. Until the owner has
 * them, they are persistent, so that the next ADD finds them after a crash at any time.
 */
export function claimLeasesOfName(
  name: PodName,
  owner: LeaseOwner,
  store: LeaseStore,
): Lease[] {
  const persistent = store.names.leasesOfName(name, owner)
    .map((lease) => store.names.makePersistent(lease, name));
  if (persistent.length > 0) recordName(name, owner, persistent, store);
  return persistent;
}

function recordName(
  name: PodName,
  owner: LeaseOwner,
  leases: readonly Pick<Lease, "ip">[],
  store: LeaseStore,
): void {
  const ips = leases.map(({ ip }) => ip);
  store.names.record(name, { ...owner, netns: owner.netns ?? "" }, ips);
}

/**
 * Records the addresses of the name, and releases addresses that it no longer
 * has.
 *
 * @param persistent The result of {@linkcode claimLeasesOfName}
 */
export function updateName(
  name: PodName,
  persistent: readonly Lease[],
  leased: readonly Pick<Lease, "ip">[],
  owner: LeaseOwner,
  store: LeaseStore,
): void {
  const isRecorded = persistent.length === leased.length &&
    leased.every((one) => isIn(persistent, one));
  if (!isRecorded) recordName(name, owner, leased, store);
  store.release(persistent.filter((one) => !isIn(leased, one)));
}
