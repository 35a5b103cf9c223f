/**
 * Picks the address of an attachment. Pure: the API server decides whether the
 * address is still free.
 *
 * @module
 */

import type { Ip } from "../../net/ip.ts";
import type { Range } from "./range.ts";

/** Candidates on the first retry, and the factor for each further retry. */
const FIRST_SPREAD = 32, SPREAD_FACTOR = 4;
/** Maximum number of candidates. */
const MAX_SPREAD = 2048;

/** The input of {@linkcode chooseAddress}. */
export interface Choice {
  readonly range: Range;
  /** Reports whether an offset in the range's network is in use. */
  readonly isTaken: (offset: bigint) => boolean;
  /** Number of lost races for an address of this range. */
  readonly attempt: number;
  /** Returns a number from 0, inclusive, to 1, exclusive. */
  readonly random: () => number;
}

/**
 * Picks a free address: the lowest at first, and after a conflict any of the first 32,
 * 128, 512 and then 2048. If all writers tried the lowest address, they would conflict
 * repeatedly.
 *
 * @returns Undefined if none is free
 */
export function chooseAddress(
  { range, isTaken, attempt, random }: Choice,
): Ip | undefined {
  const free: Ip[] = [];
  const wanted = countCandidates(attempt);
  for (const ip of freeAddresses(range, isTaken)) {
    if (free.push(ip) === wanted) break;
  }
  return free[Math.floor(random() * free.length)];
}

/** Returns the number of free addresses to pick from. */
function countCandidates(attempt: number): number {
  if (attempt === 0) return 1;
  return Math.min(FIRST_SPREAD * SPREAD_FACTOR ** (attempt - 1), MAX_SPREAD);
}

/** Lists free addresses, lowest first. Skips an excluded block in one step. */
function* freeAddresses(
  { cidr: { network }, first, last, excluded }: Range,
  isTaken: (offset: bigint) => boolean,
): Generator<Ip, void> {
  const { family } = network;
  const blocks = excluded
    .filter((block) => block.family === family)
    .map((block) => [block.network.value, block.last.value] as const);
  for (let value = first.value; value <= last.value; value++) {
    const block = blocks.find(([from, to]) => from <= value && value <= to);
    if (block !== undefined) value = block[1];
    else if (!isTaken(value - network.value)) {
      yield network.add(value - network.value);
    }
  }
}
