/**
 * What is not there yet, but may come.
 *
 * @module
 */

/** Something that a node has a little later: worth waiting for. */
export class NotYetError extends Error {}
