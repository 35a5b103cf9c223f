/**
 * A key of configurations that names something of the node.
 *
 * @module
 */

/** The kind of thing that a key's value names. */
export type Named =
  /** A file. */
  | "path"
  | "directory"
  /** A network: a path if it has a slash. */
  | "network"
  | "socket"
  /** A program, or text that a program of the node interprets. */
  | "program"
  /** A part of what is sent to a daemon of the node. */
  | "request"
  /** An interface of the node. */
  | "interface";

/** A key that names something of the node. */
export interface NodeKey {
  /** As documented; plugins read keys in any case. */
  readonly key: string;
  readonly names: Named;
  /**
   * Values that name what the plugin uses anyway, or what harms nobody. `*` at
   * the end stands for the rest of a file name.
   */
  readonly usual?: readonly string[];
}
