/**
 * Picks the address of an attachment. Pure: the caller decides whether an
 * address is free.
 *
 * @module
 */

import { CniError, ErrorCode, invalidConfig } from "../../base/error.ts";
import type { Ip } from "../../net/ip.ts";
import {
  countAddresses,
  findRange,
  formatRangeSet,
  listWithheld,
  type Range,
  rangeContains,
  type RangeSet,
} from "./range.ts";

/** The requested address, or each address of the set, is leased. */
export class NotFreeError extends CniError {}

/** An address and its range. */
export interface Candidate {
  readonly ip: Ip;
  readonly range: Range;
}

/**
 * A range set that still needs an address; any address unless one is requested.
 */
export interface AddressRequest {
  readonly set: RangeSet;
  readonly requested: Ip | undefined;
}

/**
 * Lists the addresses of a set in the order in which to try them: from the
 * successor of the last allocated address, through all ranges, to that address
 * itself. So the time before a released address is allocated again is as long as
 * possible.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/allocator.go `RangeIter`.
 *
 * @param lastReserved The address handed out last; ignored if it is outside the
 *   set
 */
export function* candidates(
  set: RangeSet,
  lastReserved: Ip | undefined,
): Generator<Candidate> {
  const position = set.findIndex((range) =>
    lastReserved !== undefined && rangeContains(range, lastReserved)
  );
  const current = set[position];
  if (lastReserved === undefined || current === undefined) {
    for (const range of set) yield* addressesOf(range);
    return;
  }
  if (!lastReserved.equals(current.end)) {
    yield* addressesOf(current, lastReserved.next());
  }
  for (const range of set.slice(position + 1)) yield* addressesOf(range);
  for (const range of set.slice(0, position)) yield* addressesOf(range);
  yield* addressesOf(current, current.start, lastReserved);
}

/** Lists a part of a range, both ends included, without withheld addresses. */
function* addressesOf(
  range: Range,
  from: Ip = range.start,
  to: Ip = range.end,
): Generator<Candidate> {
  const withheld = listWithheld(range);
  for (let ip = from;;) {
    const block = withheld.find((block) => block.contains(ip));
    if (block === undefined) yield { ip, range };
    // Skips a block in one step, however large: half of a /64 cannot be counted
    // up.
    const last = block?.last ?? ip;
    // Not the loop's condition: the last address of a family has no successor.
    if (last.compare(to) >= 0) return;
    ip = last.next();
  }
}

/**
 * Takes the first free address of a set.
 *
 * @param reserve Takes one address; returns false if it is not free
 * @throws {NotFreeError} 11 if no address is free
 */
export function allocate(
  set: RangeSet,
  lastReserved: Ip | undefined,
  reserve: (ip: Ip) => boolean,
): Candidate {
  for (const candidate of candidates(set, lastReserved)) {
    if (reserve(candidate.ip)) return candidate;
  }
  throw new NotFreeError(
    ErrorCode.TryAgainLater,
    `no IP addresses available in range set: ${formatRangeSet(set)}`,
    { details: `0 of ${countAddresses(set)} addresses are free` },
  );
}

/**
 * Takes exactly the requested address.
 *
 * @param reserve Takes one address; returns false if it is not free
 * @throws {CniError} 7 if it is withheld or outside the set
 * @throws {NotFreeError} 11 if it is not free
 */
export function allocateRequested(
  set: RangeSet,
  requested: Ip,
  reserve: (ip: Ip) => boolean,
): Candidate {
  const range = findRange(set, requested);
  if (range === undefined) {
    throw invalidConfig(`${requested} not in range set ${formatRangeSet(set)}`);
  }
  if (range.gateway?.equals(requested)) {
    throw invalidConfig(`requested ip ${requested} is subnet's gateway`);
  }
  const block = range.excluded.find((block) => block.contains(requested));
  if (block !== undefined) {
    throw invalidConfig(`requested ip ${requested} is excluded`, {
      details: `by ${block}`,
    });
  }
  if (reserve(requested)) return { ip: requested, range };
  throw new NotFreeError(
    ErrorCode.TryAgainLater,
    `requested IP address ${requested} is not available in range set ${
      formatRangeSet(set)
    }`,
  );
}
