/**
 * The error for something that is still missing.
 *
 * @module
 */

/**
 * Something is missing that a node may get later, and that is worth waiting
 * for.
 */
export class NotYetError extends Error {}
