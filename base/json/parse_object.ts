/**
 * JSON objects of other programs. Loads no schemas.
 *
 * @module
 */

/**
 * Parses a JSON object. Unlike the parser for configurations, it has no depth limit,
 * so no code may visit unknown fields.
 *
 * @returns Undefined if the text is not a JSON object
 */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null;
    return isObject && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
