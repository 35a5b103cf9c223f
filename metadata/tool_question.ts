/**
 * What tools ask a plugin's executable, besides its versions: VERSION, with
 * CNI_TOOL_ASKS in the environment and a question on stdin. A plugin that does not
 * support it answers with its versions.
 *
 * @module
 */

import type { Linted, PluginMetadata } from "./plugin_metadata.ts";
import type { JsonObject } from "../base/json/json.ts";
import type { JsonSchema } from "./json_schema.ts";
import type { Orphan, OrphanOwner } from "./orphans.ts";
import type { Problem } from "./problem.ts";

/** A question. */
export type Question =
  /** What is the plugin, and what are its keys? */
  | { readonly ask: "describe" }
  /** What is wrong with a configuration? */
  | ({ readonly ask: "lint" } & Omit<Linted, "isOurs">)
  /** Which orphans does the plugin find? */
  | OrphanQuestion;

/** Asks for the orphans, or asks to remove some of them. */
export interface OrphanQuestion {
  /** Which question it is. */
  readonly ask: "leftovers";
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** PATH, to find programs. */
  readonly path: string;
  /** The configurations of the plugin that are known. */
  readonly confs: readonly JsonObject[];
  /** The orphan to remove, named by its `where`. */
  readonly remove?: readonly string[];
}

/** The answer to `describe`. */
export interface DescribeAnswer {
  /** As JSON, without functions. */
  readonly about: PluginMetadata;
  /** The schema of its configuration. */
  readonly schema: JsonSchema;
  /** Keys that are secret. */
  readonly secrets: readonly string[];
}

/** The answer to `lint`. */
export interface LintAnswer {
  /** Mistakes; empty if there are none. */
  readonly problems: readonly Problem[];
}

/** An orphan, and what it reveals about its container, which the tool checks. */
export interface ReportedOrphan
  extends Pick<Orphan, "kind" | "where" | "container" | "network"> {
  /** Addresses are texts. Absent if the plugin itself knows `why`. */
  readonly claim?: Omit<OrphanOwner, "addresses" | "since"> & {
    readonly addresses?: readonly string[];
    /** In ms since 1970. */
    readonly since?: number;
  };
  /** Why its container is known to be deleted; "" if the tool has to find out. */
  readonly why: string;
}

/** The answer to the question `leftovers`. */
export interface OrphanAnswer {
  /** The orphans. */
  readonly leftovers: readonly ReportedOrphan[];
}
