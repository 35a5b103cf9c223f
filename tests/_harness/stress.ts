/**
 * How long stress tests go on.
 *
 * @module
 */

/** `CNI_STRESS`; undefined if it is not set. */
const WANTED = Number(Deno.env.get("CNI_STRESS") || 0);

/** Whether more was asked for than the suite needs. */
export const isLong: boolean = WANTED > 0;

/** Returns how often a test does something: as often as `CNI_STRESS` says, if it does. */
export function howOften(inSuite: number): number {
  return isLong ? WANTED : inSuite;
}
