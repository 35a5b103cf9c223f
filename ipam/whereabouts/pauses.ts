/**
 * Pauses after conflicts.
 *
 * @module
 */

/** First and longest pause, in milliseconds; half of each is random. */
const FIRST_PAUSE_MS = 10, LONGEST_PAUSE_MS = 200;

/** Returns how long to wait after a conflict, in milliseconds. */
export function pauseMs(attempt: number, random: () => number): number {
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
  return Math.ceil(longest * (1 + random()) / 2);
}
