/**
 * The JSON Schemas of plugins, and of lists of them.
 *
 * @module
 */

import { isTuple, type JsonSchema } from "../../metadata/json_schema.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import type { ListSchema } from "./make.ts";

/** A file of schemas: a plugin's type, or one of these. */
export type SchemaFile = "conflist" | "conf" | string;

/**
 * Builds the schema in a file.
 *
 * @param name A plugin's type, `conflist` or `conf`
 * @returns Undefined for an unknown type
 */
export function selectSchema(
  list: ListSchema,
  name: SchemaFile,
): JsonSchema | undefined {
  const { $schema, definitions, properties } = list;
  if (name === "conflist") return list;
  if (name === "conf") {
    return {
      $schema,
      title: "CNI plugin configuration",
      description: "A bare plugin, in a file *.conf.",
      ...properties?.["plugins"]?.items,
      required: ["cniVersion", "name", "type"],
      definitions,
    };
  }
  if (!Object.hasOwn(definitions, name)) return undefined;
  const own = definitions[name];
  const text = JSON.stringify(own);
  const used = Object.entries(definitions)
    .filter(([type]) => text.includes(`"#/definitions/${type}"`));
  return {
    $schema,
    ...own,
    ...used.length > 0 ? { definitions: Object.fromEntries(used) } : {},
  };
}

/** A key of a configuration. */
export interface Key {
  /** Such as `bridge.vlanTrunk`. */
  readonly name: string;
  readonly type: string;
  readonly schema: JsonSchema;
  /** Whether it cannot be left out. */
  readonly isRequired: boolean;
}

/**
 * Finds a key.
 *
 * @param name A plugin's type, and the keys that lead to it, in any case
 * @returns A message for an unknown type
 */
export function findKey(list: ListSchema, name: string): Key | string {
  const [first = "", ...rest] = name.replace(/\[\d*\]/g, "").split(".");
  const types = [...Object.keys(list.definitions), "conflist"];
  const type = types.find((known) => known === first.toLowerCase());
  if (type === undefined) {
    return `no plugin is named "${first}"${didYouMean(first, types)}`;
  }
  let schema: JsonSchema = type === "conflist"
    ? list
    : list.definitions[type] ?? {};
  const isIpam = schema.title?.startsWith("ipam of") === true;
  const path = isIpam && rest[0] === "ipam" ? rest.slice(1) : rest;
  const found = [type];
  let isRequired = false;
  for (const key of path) {
    const { properties = {}, required = [] } = innerOf(schema);
    const spelling = Object.keys(properties)
      .find((known) => known.toLowerCase() === key.toLowerCase());
    const inner = spelling === undefined ? undefined : properties[spelling];
    if (spelling === undefined || inner === undefined) {
      return `${found.join(".")} has no key "${key}"` +
        didYouMean(key, Object.keys(properties));
    }
    isRequired = required.includes(spelling);
    found.push(spelling);
    schema = inner;
  }
  return { name: found.join("."), type, schema, isRequired };
}

/**
 * Returns the schema of a list's items, however deep; otherwise the schema
 * itself.
 */
export function innerOf(schema: JsonSchema): JsonSchema {
  const { items } = schema;
  return items === undefined || isTuple(items) ? schema : innerOf(items);
}
