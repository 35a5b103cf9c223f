/**
 * Names that follow from what the interface belongs to, within the kernel's
 * limits.
 *
 * @module
 */

/** Source: include/uapi/linux/if.h `IFNAMSIZ` less the final NUL. */
const MAX_NAME_LENGTH = 15;

/**
 * Makes an interface name of a prefix and a hash. Whoever knows the parts can
 * find the interface again, without having been told its name.
 *
 * @param prefix Shorter than 15 characters
 * @param parts What the interface belongs to; none may contain a NUL
 */
export function stableName(
  prefix: string,
  ...parts: readonly string[]
): string {
  return (prefix + hashOf(parts.join("\0"))).slice(0, MAX_NAME_LENGTH);
}

/**
 * Shortens a text that is too long. A hash of the whole takes the place of its
 * end, so that different texts stay different.
 *
 * @param maxBytes Of UTF-8, more than 17
 */
export function shorten(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  const end = `~${hashOf(text)}`;
  const start = bytes.subarray(0, maxBytes - end.length);
  // In a stream a character that is cut is waited for, and so left out.
  return new TextDecoder().decode(start, { stream: true }) + end;
}

function hashOf(text: string): string {
  return fnv1a64(text).toString(16).padStart(16, "0");
}

/**
 * Hashes a text. What is hashed is chosen by runtimes, not by an opponent; a
 * cryptographic hash takes longer to get ready than all else that ADD computes.
 *
 * Source: RFC 9923, FNV-1a with 64 bits.
 */
function fnv1a64(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash;
}
