/**
 * Repeated work: concurrently, with random choices that a seed reproduces, and
 * more often in long test runs.
 *
 * @module
 */

/** A source of choices. */
export interface Random {
  /** Returns an integer from 0 to below `limit`. */
  below(limit: number): number;
  /** Returns true once in `times` on average. */
  once(times: number): boolean;
  /** Picks one of several. */
  pick<T>(items: readonly [T, ...T[]]): T;
}

/** Source: the mulberry32 generator, which is in the public domain. */
export function createRandom(seed: number): Random {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    below,
    once: (times) => below(times) === 0,
    pick: (items) => items[below(items.length)] ?? items[0],
  };
}

/** Does something with all items, so many at a time. */
export async function eachAtOnce<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = items.values();
  const workers = Array.from({ length: atOnce }, async () => {
    for (const item of queue) await work(item);
  });
  await Promise.all(workers);
}

/** `CNI_STRESS`; undefined if it is not set. */
const WANTED = Number(Deno.env.get("CNI_STRESS") || 0);

/** Whether more was asked for than the suite needs. */
export const isLong: boolean = WANTED > 0;

/** Returns how many random inputs a test gets: as many as `CNI_FUZZ_COUNT` says, if it does. */
export function howManyInputs(inSuite: number): number {
  return Number(Deno.env.get("CNI_FUZZ_COUNT") || inSuite);
}

/** Returns where random inputs begin: with `CNI_FUZZ_SEED`, if it is set. */
export function firstSeed(inSuite: number): number {
  return Number(Deno.env.get("CNI_FUZZ_SEED") || inSuite);
}

/** Returns how often a test does something: as often as `CNI_STRESS` says, if it does. */
export function howOften(inSuite: number): number {
  return isLong ? WANTED : inSuite;
}
