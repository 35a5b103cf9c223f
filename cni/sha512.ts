/**
 * SHA-512, from which the Go libraries derive names.
 *
 * @module
 */

/** Hashes a text with SHA-512; returns hexadecimal digits. */
export async function sha512(text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  const hash = await crypto.subtle.digest("SHA-512", bytes);
  return new Uint8Array(hash).toHex();
}
