/**
 * Ranges of addresses: what a configuration means, with its defaults filled in.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/range.go, range_set.go.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";

/** A range as it is configured. */
export interface RangeConfig {
  readonly subnet: Cidr;
  /** Absent: the second address of the subnet, which is the gateway's. */
  readonly rangeStart?: Ip | undefined;
  /** Absent: the last address that is not the broadcast address. */
  readonly rangeEnd?: Ip | undefined;
  /** Absent: the second address. It may be of another subnet. */
  readonly gateway?: Ip | undefined;
}

/** A range with everything decided. */
export interface Range {
  readonly subnet: Cidr;
  /** First address that may be handed out. */
  readonly start: Ip;
  /** Last address that may be handed out. */
  readonly end: Ip;
  /** Never handed out; undefined where the subnet has room for one address only. */
  readonly gateway: Ip | undefined;
}

/** Ranges of one family, of which an attachment gets one address. */
export type RangeSet = readonly Range[];

/**
 * Decides what a set of configured ranges means.
 *
 * @param position The set's place in the configuration, for errors
 * @throws {CniError} 7 if a range contradicts itself or another one of the set
 */
export function resolveRangeSet(
  configs: readonly RangeConfig[],
  position: number,
): RangeSet {
  const refuse = (why: string): CniError =>
    invalid(`invalid range set ${position}: ${why}`);
  const ranges = configs.map((config) => {
    try {
      return resolveRange(config);
    } catch (error) {
      throw error instanceof CniError ? refuse(error.message) : error;
    }
  });
  const [first] = ranges;
  if (first === undefined) throw refuse("empty range set");
  if (ranges.some(({ subnet }) => subnet.family !== first.subnet.family)) {
    throw refuse("mixed address families");
  }
  const clash = findOverlap(ranges, ranges);
  if (clash !== undefined) {
    throw refuse(`subnets ${clash.map(formatRange).join(" and ")} overlap`);
  }
  return ranges;
}

/**
 * Checks that no address can come from two sets.
 *
 * @throws {CniError} 7 if one can
 */
export function checkDisjoint(sets: readonly RangeSet[]): void {
  for (const [i, left] of sets.entries()) {
    for (const [j, right] of sets.entries()) {
      if (j > i && findOverlap(left, right) !== undefined) {
        throw invalid(`range set ${i} overlaps with ${j}`);
      }
    }
  }
}

/**
 * Decides what one configured range means.
 *
 * A subnet of two addresses (/31, /127) hands out both but the gateway, as
 * RFC 3021 has it; a subnet of one hands that out, and has no gateway of its own.
 *
 * @throws {CniError} 7 if the parts do not fit together
 */
export function resolveRange(config: RangeConfig): Range {
  const { subnet } = config;
  if (subnet.hasHostBits) {
    throw invalid(
      "Network has host bits set. For a subnet mask of length " +
        `${subnet.prefixLength} the network address is ${subnet.network}`,
    );
  }
  const hostBits = subnet.network.bitLength - subnet.prefixLength;
  const first = hostBits > 1 ? subnet.network.next() : subnet.network;
  const start = config.rangeStart ?? first;
  // IPv6 has no broadcast address, so there the very last one is handed out.
  const end = config.rangeEnd ?? subnet.broadcast?.previous() ?? subnet.last;
  const isReversed = start.compare(end) > 0;
  if (config.rangeStart && (isReversed || !subnet.contains(start))) {
    throw invalid(`RangeStart ${start} not in network ${subnet}`);
  }
  if (isReversed || !subnet.contains(end)) {
    throw invalid(`RangeEnd ${end} not in network ${subnet}`);
  }
  const gateway = config.gateway ?? (hostBits === 0 ? undefined : first);
  return { subnet, start, end, gateway };
}

/** Says whether the range may hand the address out, the gateway aside. */
export function rangeContains(range: Range, ip: Ip): boolean {
  return ip.family === range.start.family && range.start.compare(ip) <= 0 &&
    ip.compare(range.end) <= 0;
}

/** Finds the range of a set that an address belongs to. */
export function findRange(set: RangeSet, ip: Ip): Range | undefined {
  return set.find((range) => rangeContains(range, ip));
}

/** Formats a set as `start-end,start-end`. */
export function formatRangeSet(set: RangeSet): string {
  return set.map(formatRange).join(",");
}

function formatRange({ start, end }: Range): string {
  return `${start}-${end}`;
}

/** Finds two different ranges, one of either set, that share an address. */
function findOverlap(
  left: RangeSet,
  right: RangeSet,
): [Range, Range] | undefined {
  for (const one of left) {
    for (const other of right) {
      if (one !== other && overlaps(one, other)) return [one, other];
    }
  }
  return undefined;
}

function overlaps(one: Range, other: Range): boolean {
  return rangeContains(one, other.start) || rangeContains(other, one.start);
}

function invalid(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}
