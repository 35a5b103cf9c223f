/**
 * How much multus logs.
 *
 * @module
 */

/** The levels, from most to least; nothing is logged at `panic`. */
export const LOG_LEVELS = ["debug", "verbose", "error", "panic"] as const;

/** One of {@linkcode LOG_LEVELS}. */
export type LogLevel = typeof LOG_LEVELS[number];

/** Finds the level of a name in any case; undefined if it is none. */
export function findLogLevel(name: string): LogLevel | undefined {
  const folded = name.toLowerCase();
  return LOG_LEVELS.find((level) => level === folded);
}
