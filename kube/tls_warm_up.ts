/**
 * Initializes TLS before it is needed.
 *
 * @module
 */

/**
 * Makes another thread gather the random bits that the first TLS connection of
 * a process needs, which takes about 30 ms. Call this as soon as it is known
 * that a connection will be needed, and do other work first.
 *
 * Source: aws-lc crypto/fipsmodule/rand/entropy `tree_jitter_drbg`, which this
 * WebCrypto call reaches on a thread of the pool.
 */
export function warmUpTls(): void {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  crypto.subtle.generateKey(algorithm, false, ["sign"]).catch(() => {});
}
