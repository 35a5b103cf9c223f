/**
 * The hardware addresses that annotations may ask for.
 *
 * @module
 */

const OCTETS = /^[\da-f]{2}([:-])[\da-f]{2}(?:\1[\da-f]{2})*$/i;
const DOTTED = /^[\da-f]{4}(?:\.[\da-f]{4})+$/i;

/** In octets: Ethernet, EUI-64 (an InfiniBand GUID), InfiniBand over IP. */
const LENGTHS = [6, 8, 20];

/**
 * Says whether a text is a hardware address: octets with colons or dashes
 * between them, or pairs of octets with dots.
 *
 * Source: Go net `ParseMAC`. The form without separators, which it has since
 * 1.26, no plugin of today reads.
 */
export function isHardwareAddress(text: string): boolean {
  const octets = text.replaceAll(/[:.-]/g, "").length / 2;
  return (OCTETS.test(text) || DOTTED.test(text)) && LENGTHS.includes(octets);
}
