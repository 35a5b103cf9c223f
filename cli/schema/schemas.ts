/**
 * The JSON Schemas of plugins, as in `schemas/`.
 *
 * @module
 */

import { didYouMean } from "../../tool/suggest.ts";

/** A JSON Schema, as far as the tool reads it. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  /** A default in words. */
  readonly "x-default"?: string;
  /** The first release of the Go plugins that has it. */
  readonly "x-since"?: string;
}

/** The schema of lists, with those of all plugins. */
export interface ListSchema extends JsonSchema {
  readonly definitions: Readonly<Record<string, JsonSchema>>;
}

/** Loads all schemas. */
export async function loadSchemas(): Promise<ListSchema> {
  const { default: list } = await import("../../schemas/conflist.json", {
    with: { type: "json" },
  });
  if (!isPacked(list)) return list as unknown as ListSchema;
  const bytes = new Blob([Uint8Array.fromBase64(list.deflate)]).stream()
    .pipeThrough(new DecompressionStream("deflate-raw"));
  return await new Response(bytes).json();
}

/** As the build packs the schemas: each start reads all code, and few calls need them. */
function isPacked(list: object): list is { readonly deflate: string } {
  return "deflate" in list;
}

/** A file of `schemas/`. */
export type SchemaFile = "conflist" | "conf" | string;

/**
 * Builds the schema in a file of `schemas/`.
 *
 * @param name A plugin's type, `conflist` or `conf`
 * @returns Undefined if there is none
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
 * @returns A message if there is none
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

/** Returns the schema of a list's items, however deep; else the schema itself. */
export function innerOf(schema: JsonSchema): JsonSchema {
  return schema.items === undefined ? schema : innerOf(schema.items);
}
