/**
 * Plugins outside of this project that describe themselves to tools.
 *
 * @module
 */

import type { PluginMetadata } from "../../metadata/plugin_metadata.ts";
import { ifPossible } from "../../base/files/io.ts";
import { askPlugin } from "../../metadata/ask_plugin.ts";
import { findExecutable } from "../../cni/invoke/find.ts";
import type { Schema } from "../../base/json/json.ts";
import { type JsonSchema, schemaOfKeys } from "../../metadata/json_schema.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import type { Problem } from "../../metadata/problem.ts";
import type { CallContext } from "../../cni/call/context.ts";

/** The description of such a plugin. */
export interface DescribedPlugin {
  readonly metadata: PluginMetadata;
  /** Of its configuration; of an IPAM plugin, what is in `ipam`. */
  readonly jsonSchema: JsonSchema;
  /** Describes the keys, but not their possible values. */
  readonly schema: Schema<unknown>;
  /** Keys that are secret. */
  readonly secrets: readonly string[];
  /** Lists what is wrong with a configuration, from its own place on. */
  lint(conf: PluginConf, hasDevice: boolean): Promise<readonly Problem[]>;
}

/** Asks the executable of a type to describe itself; undefined if it cannot. */
export async function findDescribedPlugin(
  type: string,
  directories: readonly string[],
  options: Pick<CallContext, "env" | "signal">,
): Promise<DescribedPlugin | undefined> {
  const path = ifPossible(() => findExecutable(type, directories));
  if (path === undefined) return undefined;
  const description = await askPlugin(path, { ask: "describe" }, options);
  if (description === undefined) return undefined;
  const { about: metadata, schema, secrets } = description;
  const keys = metadata.kind === "ipam"
    ? { type: "object", properties: { ipam: schema } }
    : schema;
  return {
    metadata,
    jsonSchema: schema,
    secrets,
    schema: schemaOfKeys(keys),
    async lint(
      { document: conf, capabilities },
      hasDevice,
    ): Promise<readonly Problem[]> {
      const question = { ask: "lint", conf, capabilities, hasDevice } as const;
      const answer = await askPlugin(path, question, options);
      return answer?.problems ?? [];
    },
  };
}
