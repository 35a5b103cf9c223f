/**
 * ADD for an attachment whose addresses other machines have: the addresses are set
 * aside, and the attachment gets different addresses.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  type Conflict,
  decodeConflicts,
  maySetAside,
} from "../../../cni/config/conflicts.ts";
import type { Ip } from "../../../net/ip.ts";
import type { AddressRequest } from "../allocator.ts";
import type { Lease } from "../lease.ts";
import { countAddresses, findRange } from "../range.ts";
import type { LeaseStore } from "../store.ts";

/** Replaces addresses. */
export interface Replacement {
  /** Reports whether another machine has an address. */
  isUsed(ip: Ip): boolean;
  /**
   * Sets the leases of such addresses aside.
   *
   * @param leases The owner's
   * @returns Its other leases
   * @throws {CniError} 11 if such an address was requested
   */
  setAside(
    requests: readonly AddressRequest[],
    leases: readonly Lease[],
    store: LeaseStore,
  ): Lease[];
}

/**
 * Reads which addresses to replace.
 *
 * @throws {CniError} 7 if they are malformed
 */
export function readReplacement(config: object): Replacement {
  const conflicts = decodeConflicts(config);
  const find = (ip: Ip): Conflict | undefined =>
    conflicts.find((one) => one.ip.equals(ip));
  return {
    isUsed: (ip) => find(ip) !== undefined,
    setAside: (requests, leases, store) =>
      leases.filter((lease) => {
        const conflict = find(lease.ip);
        const request = requests.find(({ set }) => findRange(set, lease.ip));
        if (conflict === undefined || request === undefined) return true;
        setLeaseAside(lease, conflict, request, store);
        return false;
      }),
  };
}

function setLeaseAside(
  lease: Lease,
  { ip, mac }: Conflict,
  { set, requested }: AddressRequest,
  store: LeaseStore,
): void {
  if (requested?.equals(ip)) {
    throw new CniError(
      ErrorCode.TryAgainLater,
      `the requested address ${ip} is in use by ${mac}`,
    );
  }
  const count = store.kept.listSetAside()
    .filter(({ ip }) => findRange(set, ip)).length;
  // Otherwise it is free again, after all addresses between.
  if (maySetAside(count, countAddresses(set))) store.kept.setAside(lease, mac);
  else store.removeLease(ip);
}
