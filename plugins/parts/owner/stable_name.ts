/**
 * Names that are derived from the owner of an interface, within the kernel's
 * limits.
 *
 * @module
 */

import { MAX_INTERFACE_NAME_BYTES } from "../../../net/interface_name.ts";

/**
 * Builds an interface name from a prefix and a hash. The interface can be found
 * again from the parts alone.
 *
 * @param prefix Shorter than 15 characters
 * @param parts The owner of the interface; no part may contain a NUL
 */
export function stableName(
  prefix: string,
  ...parts: readonly string[]
): string {
  return (prefix + hashOf(parts.join("\0"))).slice(0, MAX_INTERFACE_NAME_BYTES);
}

/**
 * Shortens a text that is too long. A hash of the whole text replaces its end,
 * so that different texts stay different.
 *
 * @param maxBytes In UTF-8, more than 17
 */
export function shortenWithHash(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  const end = `~${hashOf(text)}`;
  const start = bytes.subarray(0, maxBytes - end.length);
  // With `stream`, an incomplete character at the end is dropped.
  return new TextDecoder().decode(start, { stream: true }) + end;
}

function hashOf(text: string): string {
  return fnv1a64(text).toString(16).padStart(16, "0");
}

/**
 * Hashes a text. The texts come from runtimes, not from an attacker, and a
 * cryptographic hash takes longer to load than everything else that ADD
 * computes.
 *
 * Source: RFC 9923, 64-bit FNV-1a.
 */
function fnv1a64(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash;
}
