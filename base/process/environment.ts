/**
 * The environment of a process, as a value.
 *
 * @module
 */

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string>>;
