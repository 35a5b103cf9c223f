/**
 * Interface names that follow from what the interface belongs to.
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
  const hash = fnv1a64(parts.join("\0")).toString(16).padStart(16, "0");
  return (prefix + hash).slice(0, MAX_NAME_LENGTH);
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
