/**
 * What the keys of a plugin's configuration are. `schema.ts` decodes them; this
 * describes them for people and for tools. Calls never load it.
 *
 * @module
 */

import type { JsonValue } from "../base/json/json.ts";

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
  /** A chain, zone or mark of the node's firewall. */
  | "firewall"
  /** An address of the node. */
  | "address"
  /** An interface of the node. */
  | "interface";

/** A key. */
export interface KeyDescription {
  /** Its meaning, in Markdown as in the tables of docs/. */
  readonly text?: string;
  /** Its type in words, such as `integer, 0 to 4094`. */
  readonly type?: string;
  /** Its default in Markdown: a value as code, or words. */
  readonly default?: string;
  /** A value, if the plugin's example has none. */
  readonly example?: JsonValue;
  /** The first release of the Go plugins that has it, if later than 0.7.6. */
  readonly since?: string;
  /** The kind of thing on the node that its value names. */
  readonly names?: Named;
  /**
   * Values that name what the plugin uses by default, or something harmless.
   */
  readonly usual?: readonly string[];
  /** Whether its value must not be shown. */
  readonly isSecret?: boolean;
}

/** What a plugin is, and the keys of its configuration: for docs and schemas. */
export interface PluginKeys {
  /** Its effect, in a clause that begins with a verb; Markdown. */
  readonly summary?: string;
  /** The Go plugin that it replaces: its repository and directory. */
  readonly goPeer?: string;
  /** The plugin's task, in a sentence. */
  readonly text: string;
  /** A configuration: a list, or the plugin's own object. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Keys that the plugin cannot do without, although its schema does. */
  readonly required?: readonly string[];
  /**
   * By the path that leads to a key, such as `ranges[][].subnet`. The keys of
   * an IPAM plugin are in `ipam`. Keys of several plugins need not be here; see
   * `common_keys.ts`.
   */
  readonly keys: Readonly<Record<string, KeyDescription>>;
}
