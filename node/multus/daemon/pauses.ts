/**
 * Pauses of the daemon while the API server does not answer.
 *
 * @module
 */

/**
 * The first pause between two tries, doubled up to the last, in milliseconds.
 */
const FIRST_PAUSE_MS = 500, LAST_PAUSE_MS = 30_000;

/**
 * Returns the time until the next try, in milliseconds.
 *
 * @param failures Number of consecutive failures; 1 or more
 */
export function pauseAfter(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LAST_PAUSE_MS);
}
