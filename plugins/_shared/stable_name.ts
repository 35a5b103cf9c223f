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
export async function stableName(
  prefix: string,
  ...parts: readonly string[]
): Promise<string> {
  const bytes = new TextEncoder().encode(parts.join("\0"));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return (prefix + hash.toHex()).slice(0, MAX_NAME_LENGTH);
}
