/**
 * Ranges of addresses: the configured ranges with their defaults filled in.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/allocator/range.go, range_set.go.
 *
 * @module
 */

import { CniError, invalidConfig } from "../../base/error.ts";
import { checkGatewayFamily } from "../../cni/result/one_per_family.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";

/** A range as configured. */
export interface RangeConfig {
  readonly subnet: Cidr;
  /** Defaults to the second address of the subnet, the default gateway. */
  readonly rangeStart?: Ip | undefined;
  /** Defaults to the last address before the broadcast address. */
  readonly rangeEnd?: Ip | undefined;
  /** Defaults to the second address. It may be outside the subnet. */
  readonly gateway?: Ip | undefined;
  /**
   * Parts of the subnet, down to single addresses, that are never handed out.
   */
  readonly exclude?: readonly Cidr[] | undefined;
}

/** A range with its defaults filled in. */
export interface Range {
  readonly subnet: Cidr;
  /** First address of the range. */
  readonly start: Ip;
  /** Last address of the range. */
  readonly end: Ip;
  /** Never handed out; undefined if the subnet has only one address. */
  readonly gateway: Ip | undefined;
  /**
   * Never handed out. They may overlap, and lie before the start or past the
   * end.
   */
  readonly excluded: readonly Cidr[];
}

/** Ranges of one family; an attachment gets one address from all of them. */
export type RangeSet = readonly Range[];

/**
 * Parses a part of a subnet: a network or a single address.
 *
 * @throws {AddressError} If it is neither
 */
export function parseBlock(text: string): Cidr {
  return text.includes("/") ? Cidr.parse(text) : Cidr.host(Ip.parse(text));
}

/**
 * Resolves a set of configured ranges.
 *
 * @param position The set's position in the configuration, for errors
 * @throws {CniError} 7 if a range contradicts itself or a different range of the set
 */
export function resolveRangeSet(
  configs: readonly RangeConfig[],
  position: number,
): RangeSet {
  const refuse = (why: string): CniError =>
    invalidConfig(`invalid range set ${position}: ${why}`);
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
  const clashing = findClashing(ranges);
  const one = ranges.find((range) => clashing.has(range));
  if (one === undefined) return ranges;
  const other = ranges.filter((range) => range !== one && overlaps(range, one));
  const names = [one, ...other.slice(0, 1)].map(formatRange);
  throw refuse(`subnets ${names.join(" and ")} overlap`);
}

/**
 * Checks that no address is in two sets.
 *
 * @param sets Each without ranges that overlap
 * @throws {CniError} 7 if one is
 */
export function checkDisjoint(sets: readonly RangeSet[]): void {
  const clashing = findClashing(sets.flat());
  const clashes = sets.map((set) => set.some((range) => clashing.has(range)));
  const left = clashes.indexOf(true);
  if (left === -1) return;
  const sorted = sortByStart(sets[left] ?? []);
  const right = sets.findIndex((set, j) =>
    j > left && clashes[j] && set.some((range) => overlapsAny(sorted, range))
  );
  throw invalidConfig(`range set ${left} overlaps with ${right}`);
}

/**
 * Resolves a configured range.
 *
 * A subnet of two addresses (/31, /127) hands out both except the gateway, as
 * in RFC 3021; a subnet with a single address allocates it, and has no default gateway.
 *
 * @throws {CniError} 7 if the parts do not fit together
 */
export function resolveRange(config: RangeConfig): Range {
  const { subnet } = config;
  if (subnet.hasHostBits) {
    throw invalidConfig(
      "Network has host bits set. For a subnet mask of length " +
        `${subnet.prefixLength} the network address is ${subnet.network}`,
    );
  }
  const hostBits = subnet.network.bitLength - subnet.prefixLength;
  const first = hostBits > 1 ? subnet.network.next() : subnet.network;
  const start = config.rangeStart ?? first;
  // IPv6 has no broadcast address, so there the very last address is handed
  // out.
  const end = config.rangeEnd ?? subnet.broadcast?.previous() ?? subnet.last;
  const isReversed = start.compare(end) > 0;
  const { rangeStart, rangeEnd } = config;
  if (rangeStart && !rangeEnd && isReversed && subnet.contains(start)) {
    throw invalidConfig(
      `RangeStart ${start} is after RangeEnd ${end} in network ${subnet}`,
    );
  }
  if (rangeStart && (isReversed || !subnet.contains(start))) {
    throw invalidConfig(`RangeStart ${start} not in network ${subnet}`);
  }
  if (isReversed || !subnet.contains(end)) {
    throw invalidConfig(`RangeEnd ${end} not in network ${subnet}`);
  }
  const gateway = config.gateway ?? (hostBits === 0 ? undefined : first);
  checkGatewayFamily(subnet, gateway);
  const { exclude: excluded = [] } = config;
  for (const block of excluded) checkExcluded(block, subnet);
  return { subnet, start, end, gateway, excluded };
}

function checkExcluded(block: Cidr, subnet: Cidr): void {
  const { network, ip, prefixLength } = block;
  if (block.hasHostBits) {
    throw invalidConfig(
      `Exclude ${block} has host bits set. For a subnet mask of length ` +
        `${prefixLength} the network address is ${network}`,
    );
  }
  if (subnet.containsCidr(block)) return;
  const excluded = prefixLength === ip.bitLength ? ip : block;
  throw invalidConfig(`Exclude ${excluded} not in network ${subnet}`);
}

/** Reports whether the range contains the address, withheld or not. */
export function rangeContains(range: Range, ip: Ip): boolean {
  return ip.family === range.start.family && range.start.compare(ip) <= 0 &&
    ip.compare(range.end) <= 0;
}

/** Finds the range of a set that contains an address. */
export function findRange(set: RangeSet, ip: Ip): Range | undefined {
  return set.find((range) => rangeContains(range, ip));
}

/**
 * Lists the addresses that a range never hands out: the gateway and the
 * exclusions.
 */
export function listWithheld({ gateway, excluded }: Range): readonly Cidr[] {
  return gateway === undefined ? excluded : [Cidr.host(gateway), ...excluded];
}

/** Counts the addresses that a set can hand out, leased or not. */
export function countAddresses(set: RangeSet): bigint {
  return set.map(countInRange).reduce((sum, count) => sum + count, 0n);
}

function countInRange(range: Range): bigint {
  const { start, end } = range;
  const withheld = listOutermost(listWithheld(range))
    .filter(({ family }) => family === start.family)
    .map(({ network, last }) =>
      countBetween(max(network, start), min(last, end))
    )
    .reduce((sum, count) => sum + count, 0n);
  return countBetween(start, end) - withheld;
}

/** Drops the blocks that are inside other blocks, so that no blocks overlap. */
function listOutermost(blocks: readonly Cidr[]): Cidr[] {
  const sorted = blocks.toSorted((one, other) =>
    one.network.compare(other.network) || one.prefixLength - other.prefixLength
  );
  let outer: Cidr | undefined;
  return sorted.filter((block) => {
    if (outer?.containsCidr(block)) return false;
    outer = block;
    return true;
  });
}

/** Counts addresses, both ends included; 0 if the ends are reversed. */
function countBetween(first: Ip, last: Ip): bigint {
  const count = last.value - first.value + 1n;
  return count > 0n ? count : 0n;
}

function max(one: Ip, other: Ip): Ip {
  return one.compare(other) < 0 ? other : one;
}

function min(one: Ip, other: Ip): Ip {
  return one.compare(other) < 0 ? one : other;
}

/** Formats a set as `start-end,start-end`. */
export function formatRangeSet(set: RangeSet): string {
  return set.map(formatRange).join(",");
}

function formatRange({ start, end }: Range): string {
  return `${start}-${end}`;
}

/**
 * Finds all ranges that share an address with another one. A configuration may
 * have so many that comparing each with each would take minutes.
 */
function findClashing(ranges: RangeSet): ReadonlySet<Range> {
  const clashing = new Set<Range>();
  /** The block that ends last among the blocks that start before. */
  let longest: Range | undefined;
  for (const range of sortByStart(ranges)) {
    if (longest !== undefined && overlaps(longest, range)) {
      clashing.add(longest).add(range);
    }
    const isLonger = longest === undefined ||
      longest.end.compare(range.end) < 0;
    if (isLonger) longest = range;
  }
  return clashing;
}

/** Reports whether a range shares an address with a range of a sorted set. */
function overlapsAny(sorted: RangeSet, range: Range): boolean {
  let [first, end] = [0, sorted.length];
  while (first < end) {
    const middle = (first + end) >> 1;
    const found = sorted[middle] as Range;
    if (overlaps(found, range)) return true;
    if (found.start.compare(range.start) < 0) first = middle + 1;
    else end = middle;
  }
  return false;
}

function sortByStart(ranges: RangeSet): Range[] {
  return ranges.toSorted((one, other) => one.start.compare(other.start));
}

function overlaps(one: Range, other: Range): boolean {
  return rangeContains(one, other.start) || rangeContains(other, one.start);
}
