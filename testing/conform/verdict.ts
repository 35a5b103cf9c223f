/**
 * How a requirement ends: kept, broken, or untried.
 *
 * @module
 */

/** The outcome of a requirement. */
export type Outcome = "kept" | "broken" | "untried";

/** A requirement is broken: why, in a line or more. */
export class Broken extends Error {
  override readonly name = "Broken";
}

/** It cannot be told whether a requirement is kept: why. */
export class Untried extends Error {
  override readonly name = "Untried";
}

/** Fails a requirement unless a condition holds. */
export function expect(condition: unknown, why: string): asserts condition {
  if (!condition) throw new Broken(why);
}

/** Shortens a text to a line for people. */
export function brief(text: string, limit = 200): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}
