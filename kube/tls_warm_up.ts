/**
 * TLS, made ready before it is needed.
 *
 * @module
 */

/**
 * Has another thread begin what the first TLS connection of a process waits for:
 * some 30 ms in which the cryptographic library gathers random bits. Whoever
 * knows that a connection will be needed calls this, and does other things first.
 *
 * Source: aws-lc crypto/fipsmodule/rand/entropy `tree_jitter_drbg`; of all that
 * WebCrypto can do, this comes to it on a thread of the pool.
 */
export function warmUpTls(): void {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  crypto.subtle.generateKey(algorithm, false, ["sign"]).catch(() => {});
}
