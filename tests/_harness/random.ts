/**
 * Random numbers that a seed repeats.
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
