/**
 * Takes leases: one address from each list of ranges, or none at all.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import type { Ip } from "../../net/ip.ts";
import {
  type AddressRequest,
  allocate,
  allocateRequested,
  type Candidate,
  NotFreeError,
} from "./allocator.ts";
import {
  type DatedLease,
  describeOwner,
  isIn,
  type Lease,
  parseSetAside,
} from "./lease.ts";
import type { LeaseOwner } from "./kept/kept_addresses.ts";
import type { Replacement } from "./kept/replacement.ts";
import { findRange, listWithheld, type RangeSet } from "./range.ts";
import type { LeaseStore } from "./store.ts";

/** A new lease, and the lease that it replaces. */
interface NewLease extends Candidate {
  readonly before?: Lease & Partial<DatedLease>;
  /** Whether the owner had it before. */
  readonly isHeld?: boolean;
}

/** The leases that an owner retains. */
export interface RetainedLeases {
  /** Replaces addresses that the owner has. */
  readonly replacement?: Replacement | undefined;
  /**
   * The owner's leases from before it was started again. Leases that were written later
   * belong to a different ADD.
   */
  readonly restarted?: readonly DatedLease[];
}

/**
 * Leases one address from each set, or none at all.
 *
 * @param log Receives failures to undo leases, and warnings
 * @param retained The leases that the owner retains
 * @throws {CniError} 11 if an address is not free, 999 if the owner has a lease
 *   already, 7 if an address must not be handed out, 5 if a lease cannot be
 *   written
 */
export function leaseEach(
  requests: readonly AddressRequest[],
  owner: LeaseOwner,
  store: LeaseStore,
  log: Log,
  { replacement, restarted = [] }: RetainedLeases = {},
): Candidate[] {
  const before = store.leasesOf(owner);
  const own = restarted.length === 0
    ? []
    : store.datedLeasesOf(owner).filter(({ ip, writtenMs }) =>
      restarted.some((one) => one.ip.equals(ip) && one.writtenMs === writtenMs)
    );
  if (replacement === undefined) {
    const others = before.filter((lease) => !isIn(own, lease));
    refuseSecondLease(requests, owner, others);
  }
  const held = replacement?.setAside(requests, before, store) ?? [];
  const claimed = store.kept.claim(owner);
  const retained = [...claimed, ...own];
  const leased: NewLease[] = [];
  for (const [position, request] of requests.entries()) {
    try {
      const lease = findHeld(request, held) ??
        reuseLease(request, retained, owner, store) ??
        leaseNew(request, position, owner, store, log, replacement);
      leased.push(lease);
      const isNew = !lease.isHeld &&
        !retained.some(({ ip }) => ip.equals(lease.ip));
      if (isNew) store.setLastReserved(position, lease.ip);
    } catch (error) {
      undoLeases(leased, store, log);
      throw atRangeSet(position, error);
    }
  }
  try {
    const isRecorded = claimed.length === leased.length &&
      leased.every((one) => isIn(claimed, one));
    if (!isRecorded) store.kept.record(owner, leased);
    store.remove(retained.filter((one) => !isIn(leased, one)));
  } catch (error) {
    undoLeases(leased, store, log);
    throw error;
  }
  return leased;
}

/** Finds the address of a set that the owner keeps, while another is replaced. */
function findHeld(
  { set }: AddressRequest,
  held: readonly Lease[],
): NewLease | undefined {
  for (const { ip } of held) {
    const range = findRange(set, ip);
    if (range !== undefined) return { ip, range, isHeld: true };
  }
  return undefined;
}

/** Takes the address that the name, or the owner, had in a set. */
function reuseLease(
  { set, requested }: AddressRequest,
  retained: readonly Lease[],
  owner: AttachmentId,
  store: LeaseStore,
): NewLease | undefined {
  for (const lease of retained) {
    const { ip } = lease;
    const range = findRange(set, ip);
    const isFit = range !== undefined && (requested?.equals(ip) ?? true) &&
      !listWithheld(range).some((block) => block.contains(ip));
    if (!isFit) continue;
    store.assignLease(lease, owner);
    return { ip, range, before: lease };
  }
  return undefined;
}

function leaseNew(
  { set, requested }: AddressRequest,
  position: number,
  owner: AttachmentId,
  store: LeaseStore,
  log: Log,
  replacement: Replacement | undefined,
): NewLease {
  const isUsed = (ip: Ip): boolean => replacement?.isUsed(ip) === true;
  const reserve = (ip: Ip): boolean =>
    !isUsed(ip) && store.reserve(ip, owner, requested !== undefined);
  try {
    return requested === undefined
      ? allocate(set, store.lastReserved(position), reserve)
      : allocateRequested(set, requested, reserve);
  } catch (error) {
    if (!(error instanceof NotFreeError)) throw error;
    const unused = requested === undefined
      ? takeOldestUnused(set, owner, store, log, isUsed)
      : undefined;
    if (unused !== undefined) return unused;
    throw withDetails(
      error,
      requested === undefined
        ? `${error.details}; the leases are in "${store.path}"`
        : store.describeLease(requested),
    );
  }
}

/**
 * A full set: takes the persistent address that has been unused for the longest
 * time, or an address that is set aside.
 */
function takeOldestUnused(
  set: RangeSet,
  owner: AttachmentId,
  store: LeaseStore,
  log: Log,
  isUsed: (ip: Ip) => boolean,
): NewLease | undefined {
  const before = store.kept.findOldest((ip) => {
    const range = findRange(set, ip);
    return range !== undefined && !isUsed(ip) &&
      !listWithheld(range).some((block) => block.contains(ip));
  });
  const range = before && findRange(set, before.ip);
  if (before === undefined || range === undefined) return undefined;
  store.assignLease(before, owner);
  const message = parseSetAside(before.content) === undefined
    ? "The range is full: reusing a persistent address"
    : "The range is full: reusing an address that is set aside";
  log.warn(message, {
    address: String(before.ip),
    of: describeOwner(before.content),
  });
  return { ip: before.ip, range, before };
}

/** Ends only these leases: the owner might have leases of a different ADD. */
function undoLeases(
  leased: readonly NewLease[],
  store: LeaseStore,
  log: Log,
): void {
  for (const { ip, before, isHeld } of leased) {
    if (isHeld) continue;
    try {
      if (before === undefined) store.removeLease(ip);
      else store.restoreLease(before);
    } catch (error) {
      // The caller reports the earlier error.
      log.error(`Cannot release ${ip}`, { error: describeError(error) });
    }
  }
}

/**
 * Refuses an attachment that has a lease already: it is still attached, or its
 * DEL did not run yet, or was lost.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/allocator.go `Get`.
 */
function refuseSecondLease(
  requests: readonly AddressRequest[],
  owner: AttachmentId,
  leases: readonly Lease[],
): void {
  for (const [position, { set }] of requests.entries()) {
    const lease = leases.find(({ ip }) => findRange(set, ip) !== undefined);
    if (lease === undefined) continue;
    throw new SecondLeaseError(
      ErrorCode.Internal,
      `failed to allocate for range ${position}: ` +
        `${lease.ip} has been allocated to ${owner.containerId}, ` +
        "duplicate allocation is not allowed",
      { details: lease.path },
    );
  }
}

/** The error of an attachment that has a lease already. */
export class SecondLeaseError extends CniError {}

function atRangeSet(position: number, error: unknown): unknown {
  if (!(error instanceof CniError)) return error;
  const message = `failed to allocate for range ${position}: ${error.message}`;
  const Kind = error instanceof NotFreeError ? NotFreeError : CniError;
  return new Kind(error.code, message, {
    details: error.ownDetails ?? "",
    cause: error.cause,
  });
}

function withDetails(
  { code, message }: NotFreeError,
  details: string,
): NotFreeError {
  return new NotFreeError(code, message, { details });
}
