/**
 * Leases the addresses of one ADD: one from each range set, or none at all.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import type { Log } from "../../cni/log/log.ts";
import type { Ip } from "../../net/ip.ts";
import { allocate, allocateRequested, type Candidate } from "./allocator.ts";
import type { Lease, Owner } from "./lease_files.ts";
import { findRange, type RangeSet } from "./range.ts";
import type { LeaseStore } from "./store.ts";

/**
 * A range set that still needs an address; any address unless one is requested.
 */
export interface Wish {
  readonly set: RangeSet;
  readonly requested: Ip | undefined;
}

/**
 * Gives each set the first remaining requested address that it contains.
 *
 * @throws {CniError} 7 if a requested address is left over
 */
export function distribute(
  requested: readonly Ip[],
  sets: readonly RangeSet[],
): Wish[] {
  const left = [...requested];
  const wishes = sets.map((set): Wish => {
    const position = left.findIndex((ip) => findRange(set, ip) !== undefined);
    const [ip] = position < 0 ? [] : left.splice(position, 1);
    return { set, requested: ip };
  });
  if (left.length === 0) return wishes;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `failed to allocate all requested IPs: ${left.join(" ")}`,
    { details: "no range set is left that has them" },
  );
}

/**
 * Leases one address from each set, or none at all.
 *
 * @param log Receives failures to take leases back
 * @throws {CniError} 11 if an address is not free, 999 if the owner has a lease
 *   already, 7 if an address must not be handed out, 5 if a lease cannot be
 *   written
 */
export function leaseEach(
  wishes: readonly Wish[],
  owner: Owner,
  store: LeaseStore,
  log: Log,
): Candidate[] {
  const known = store.knownLeasesOf(owner);
  refuseSecondLease(wishes, owner, known);
  store.begin(owner);
  const leased: Candidate[] = [];
  for (const [position, wish] of wishes.entries()) {
    try {
      const lease = leaseOne(wish, position, owner, store);
      leased.push(lease);
      store.setLastReserved(position, lease.ip);
    } catch (error) {
      takeBack(leased, store, log);
      store.forget(owner);
      throw failedAt(position, error);
    }
  }
  store.finish(owner, [...known, ...leased].map(({ ip }) => ip));
  return leased;
}

function leaseOne(
  { set, requested }: Wish,
  position: number,
  owner: Owner,
  store: LeaseStore,
): Candidate {
  const reserve = (ip: Ip): boolean => store.reserve(ip, owner);
  try {
    return requested === undefined
      ? allocate(set, store.lastReserved(position), reserve)
      : allocateRequested(set, requested, reserve);
  } catch (error) {
    if (!isNotFree(error)) throw error;
    throw withDetails(
      error,
      requested === undefined
        ? `${error.details}; the leases are in "${store.path}"`
        : store.describeLease(requested),
    );
  }
}

function isNotFree(error: unknown): error is CniError {
  return error instanceof CniError && error.code === ErrorCode.TryAgainLater;
}

/** Ends only these leases: the owner may have others, from another ADD. */
function takeBack(
  leased: readonly Candidate[],
  store: LeaseStore,
  log: Log,
): void {
  for (const { ip } of leased) {
    try {
      store.takeBack(ip);
    } catch (error) {
      // The caller reports the earlier error.
      log.error(`Cannot release ${ip}`, { error: describeError(error) });
    }
  }
}

/**
 * Refuses an attachment that has a lease already: it is still attached, or its
 * DEL is still to come.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/allocator.go `Get`.
 */
function refuseSecondLease(
  wishes: readonly Wish[],
  owner: Owner,
  leases: readonly Lease[],
): void {
  for (const [position, { set }] of wishes.entries()) {
    const lease = leases.find(({ ip }) => findRange(set, ip) !== undefined);
    if (lease === undefined) continue;
    const error = new CniError(
      ErrorCode.Internal,
      `${lease.ip} has been allocated to ${owner.containerId}, ` +
        "duplicate allocation is not allowed",
      { details: lease.path },
    );
    throw failedAt(position, error);
  }
}

function failedAt(position: number, error: unknown): unknown {
  if (!(error instanceof CniError)) return error;
  const message = `failed to allocate for range ${position}: ${error.message}`;
  return new CniError(error.code, message, {
    details: error.ownDetails ?? "",
    cause: error.cause,
  });
}

function withDetails({ code, message }: CniError, details: string): CniError {
  return new CniError(code, message, { details });
}
