/**
 * The hash of which the Go libraries make names.
 *
 * @module
 */

/** Hashes a text by SHA-512, in hexadecimal digits. */
export async function sha512(text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  const hash = await crypto.subtle.digest("SHA-512", bytes);
  return new Uint8Array(hash).toHex();
}
