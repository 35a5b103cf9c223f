/**
 * Writes JSON as the Go library does, so that a plugin reads the same bytes
 * whichever of the two called it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import type { JsonObject, JsonValue } from "../json.ts";

/**
 * Encodes an object in one line, with the keys of every object in it in
 * alphabetical order.
 *
 * `JSON.stringify` cannot: it moves keys that look like integers to the front.
 *
 * Source: Go encoding/json `Marshal` of a map.
 *
 * @throws {CniError} 7 If a number is larger than any that JSON can express here
 */
export function encodeJson(document: JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(formatJson(document));
}

/** Formats a value as {@linkcode encodeJson} does, and throws as it does. */
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
 * Makes a text that sorts as the UTF-8 of another one does: JavaScript sorts by
 * UTF-16, which has surrogates, so U+10000 and up, before U+E000.
 */
function sortable(text: string): string {
  return text.replace(/[\ud800-\uffff]/g, (unit) => {
    const shift = unit < "\ue000" ? 0x2000 : -0x800;
    return String.fromCharCode(unit.charCodeAt(0) + shift);
  });
}

/** Escapes also what could end a script in HTML, as Go does. */
function formatText(text: string): string {
  return JSON.stringify(text.toWellFormed()).replace(
    /[<>&\u2028\u2029]/g,
    (character) =>
      `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function formatNumber(value: number): string {
  if (Object.is(value, -0)) return "-0";
  // What 1e400 is parsed to; JSON.stringify() would make it null.
  if (Number.isFinite(value)) return String(value);
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "Cannot encode JSON: a number is too large",
  );
}
