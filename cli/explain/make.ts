/**
 * Makes the JSON Schemas of plugins, and of lists of them.
 *
 * @module
 */

import {
  describeCommon,
  describePlugin,
  type JsonSchema,
} from "../../metadata/json_schema.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { findPlugin, pluginNames } from "../../plugins/registry.ts";

/** The schema of network lists, with the schemas of all plugins. */
export interface ListSchema extends JsonSchema {
  readonly definitions: Readonly<Record<string, JsonSchema>>;
}

const DRAFT = "http://json-schema.org/draft-07/schema#";

/** The IPAM plugins: their schema is the schema of `ipam`. */
const IPAM_TYPES: readonly string[] = pluginNames
  .filter((type) => METADATA.get(type)?.kind === "ipam");

/** Makes the schemas of all plugins. The build packs what this returns. */
export async function makeSchemas(): Promise<ListSchema> {
  const definitions: Record<string, JsonSchema> = {};
  for (const type of pluginNames) {
    const schema = await (await findPlugin(type))?.configSchema();
    const metadata = METADATA.get(type);
    if (schema && metadata) {
      const plugin = { metadata, keys: await metadata.keys(), schema };
      definitions[type] = describePlugin(plugin, IPAM_TYPES);
    }
  }
  const plugin = choosePlugin(
    pluginNames.filter((type) => !IPAM_TYPES.includes(type)),
  );
  return { ...describeList(plugin), definitions };
}

/** What the keys of a list are. Source: CNI specification 1.1.0, section 1. */
const LIST_TEXTS: Readonly<Record<string, string>> = {
  "$schema": "The schema of this file, for editors.",
  "cniVersion": "Version of the CNI specification.",
  "cniVersions":
    "Versions that the configuration supports; the runtime uses the newest.",
  "name":
    "Name of the network: letters, digits, underscores, dots and dashes. Unique on the node.",
  "disableCheck": "Whether runtimes skip CHECK.",
  "disableGC": "Whether runtimes skip GC.",
  "loadOnlyInlinedPlugins":
    "Whether plugins in the directory of the network's name are ignored.",
  "plugins": "The plugins, in the order in which ADD runs them.",
  "args": "Kept for other programs.",
  "allowPersistentIPs":
    "Whether pods can name IPAMClaims, which keep their addresses.",
};

function describeList(plugin: JsonSchema): JsonSchema {
  const string = { type: "string" }, flag = { type: "boolean", default: false };
  const types: Record<string, JsonSchema> = {
    "$schema": string,
    "cniVersion": { ...string, enum: SPEC_VERSIONS },
    "cniVersions": { type: "array", items: string },
    "name": { ...string, pattern: "^[A-Za-z0-9][\\w.\\-]*$" },
    "disableCheck": flag,
    "disableGC": flag,
    "loadOnlyInlinedPlugins": flag,
    "plugins": { type: "array", minItems: 1, items: plugin },
    "args": { type: "object" },
    "allowPersistentIPs": flag,
  };
  return {
    $schema: DRAFT,
    title: "CNI network configuration list",
    description: "A network: a list of plugins, in a file *.conflist.",
    type: "object",
    required: ["cniVersion", "name", "plugins"],
    properties: Object.fromEntries(
      Object.entries(types).map(([key, schema]) => [
        key,
        { description: LIST_TEXTS[key] ?? "", ...schema },
      ]),
    ),
  };
}

/** Chooses the schema by the type; third-party plugins can have any keys. */
function choosePlugin(types: readonly string[]): JsonSchema {
  return {
    type: "object",
    required: ["type"],
    properties: {
      type: {
        type: "string",
        ...describeCommon("type"),
        // Offered by editors; any other type is also valid.
        anyOf: [{ enum: types }, {}],
      },
    },
    allOf: types.map((type) => ({
      if: { properties: { type: { const: type } }, required: ["type"] },
      then: { $ref: `#/definitions/${type}` },
    })),
  };
}
