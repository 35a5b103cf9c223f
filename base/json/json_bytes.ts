/**
 * Writes JSON like the Go library, so that a plugin reads the same bytes from either.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import type { JsonObject, JsonValue } from "./json.ts";

/**
 * Encodes an object in a single line, with the keys of all objects sorted.
 *
 * `JSON.stringify` cannot do this: it moves keys that look like integers to the
 * front.
 *
 * Source: Go encoding/json `Marshal` of a map.
 *
 * @throws {CniError} 7 If a number exceeds the range of JSON numbers here
 */
export function encodeJson(document: JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(formatJson(document));
}

/** Formats a value; throws like {@linkcode encodeJson}. */
export function formatJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(formatJson).join(",")}]`;
  if (typeof value === "object" && value !== null) return formatObject(value);
  if (typeof value === "string") return formatText(value);
  if (typeof value === "number") return formatNumber(value);
  return String(value);
}

function formatObject(object: JsonObject): string {
  const members = Object.entries(object)
    .sort(([left], [right]) => sortable(left) < sortable(right) ? -1 : 1)
    .map(([key, value]) => `${formatText(key)}:${formatJson(value)}`);
  return `{${members.join(",")}}`;
}

/**
 * Returns a key that sorts a text by its UTF-8. JavaScript sorts by UTF-16,
 * which puts the surrogates of U+10000 and up before U+E000.
 */
function sortable(text: string): string {
  return text.replace(/[\ud800-\uffff]/g, (unit) => {
    const shift = unit < "\ue000" ? 0x2000 : -0x800;
    return String.fromCharCode(unit.charCodeAt(0) + shift);
  });
}

/** Quotes a text. */
function formatText(text: string): string {
  return escapeAsGo(JSON.stringify(text.toWellFormed()));
}

/**
 * Escapes the characters that Go's JSON encoder escapes in addition, because they are
 * special in HTML or JavaScript.
 */
export function escapeAsGo(json: string): string {
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (character) =>
      `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function formatNumber(value: number): string {
  if (Object.is(value, -0)) return "-0";
  // 1e400 parses to Infinity, which JSON.stringify() would turn into null.
  if (Number.isFinite(value)) return String(value);
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "Cannot encode JSON: a number is too large",
  );
}
