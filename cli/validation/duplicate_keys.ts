/**
 * Keys that repeat in one object. JSON allows it, and the last one wins.
 *
 * @module
 */

import type { Place } from "./problem.ts";

/** Strings, and the tokens that distinguish keys from values. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]/gs;

/** An object or array that is being scanned. */
interface Level {
  readonly isArray: boolean;
  readonly keys: Set<string>;
  /** The key or index of the current value. */
  at: string | number;
}

/**
 * Lists repeated keys.
 *
 * @param text Valid JSON
 */
export function listDuplicateKeys(text: string): Place[] {
  const found: Place[] = [];
  const levels: Level[] = [];
  let word = "";
  for (const [token] of text.matchAll(TOKENS)) {
    const level = levels.at(-1);
    if (token === "{" || token === "[") {
      levels.push({ isArray: token === "[", keys: new Set(), at: 0 });
    } else if (token === "}" || token === "]") {
      levels.pop();
    } else if (token === "," && level?.isArray) {
      level.at = Number(level.at) + 1;
    } else if (token === ":" && level !== undefined) {
      level.at = JSON.parse(word);
      if (level.keys.has(word)) found.push(levels.map(({ at }) => at));
      level.keys.add(word);
    } else {
      word = token;
    }
  }
  return found;
}
