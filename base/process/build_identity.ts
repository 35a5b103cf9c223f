/**
 * The identity of the program's code, with which a caller and a daemon detect that
 * their builds differ.
 *
 * @module
 */

/** `scripts/compile/bundle.ts` replaces this text with the bundle's SHA-256. */
export const DIGEST_PLACEHOLDER = "sha256-of-the-bundle";

/**
 * Identifies the code: the digest of the bundle in an executable, the directory
 * of the sources otherwise. The same sources give the same digest for every
 * architecture.
 */
export const buildIdentity: string = import.meta.dirname === undefined
  ? DIGEST_PLACEHOLDER
  : `source:${import.meta.dirname}`;

/** The release of these plugins. */
export const PLUGINS_VERSION = "0.1.0";
