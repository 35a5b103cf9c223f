/**
 * Keys that an object of a JSON document has twice. JSON.parse() keeps the last
 * of them and does not report the others.
 *
 * @module
 */

/** A string, with the colon if it is a key, or a bracket. */
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g;

/**
 * Finds a repeated key.
 *
 * @param document Valid JSON
 * @param path The keys that lead to the object, case-insensitive
 */
export function findRepeatedKey(
  document: string,
  path: readonly string[],
): string | undefined {
  const seen = new Set<string>();
  /** The last key of each open object; "" in arrays. */
  const keys: string[] = [];
  for (const [token, text, colon] of document.matchAll(TOKEN)) {
    if (text === undefined) {
      if (token === "{" || token === "[") keys.push("");
      else keys.pop();
    } else if (colon !== undefined) {
      const key: string = JSON.parse(text);
      keys[keys.length - 1] = key;
      if (keys.length !== path.length + 1 || !isUnder(keys, path)) continue;
      if (seen.has(key)) return key;
      seen.add(key);
    }
  }
  return undefined;
}

function isUnder(keys: readonly string[], path: readonly string[]): boolean {
  return path.every((key, at) => keys[at]?.toLowerCase() === key.toLowerCase());
}
