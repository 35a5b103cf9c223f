/**
 * JSON Schemas of configurations: structure and limits from the schemas that
 * decode them, texts from `keys.ts`.
 *
 * @module
 */

import * as z from "zod/mini";
import type { PluginMetadata, PluginStatus } from "./plugin_metadata.ts";
import { COMMON_KEYS } from "./common_keys.ts";
import { isObject, type JsonObject, type Schema } from "../base/json/json.ts";
import type { KeyDescription, PluginKeys } from "./plugin_keys.ts";

/**
 * A JSON Schema, as far as tools read it. Source: draft-07, which editors support
 * best.
 */
export interface JsonSchema {
  /** Keywords that have no meaning here. */
  readonly [keyword: string]: unknown;
  /** A name for people. */
  readonly title?: string;
  /** The meaning of the value. */
  readonly description?: string;
  /** The JSON type. */
  readonly type?: string;
  /** The values that are allowed. */
  readonly enum?: readonly unknown[];
  /** The only value that is allowed. */
  readonly const?: unknown;
  /** Schemas of an object's keys. */
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  /** Keys that an object must have. */
  readonly required?: readonly string[];
  /** Schema of an array's items; of a tuple, one for each. */
  readonly items?: JsonSchema | readonly JsonSchema[];
  /** The least number. */
  readonly minimum?: number;
  /** The greatest number. */
  readonly maximum?: number;
  /** The default. */
  readonly default?: unknown;
  /** Values that make sense. */
  readonly examples?: readonly unknown[];
  /** Whether users may rely on the plugin's keys and results. */
  readonly "x-status"?: PluginStatus;
  /** A default in words. */
  readonly "x-default"?: string;
  /** The first release of the Go plugins that has it. */
  readonly "x-since"?: string;
}

/** A plugin to describe. */
export interface DescribedPlugin {
  readonly metadata: Pick<PluginMetadata, "type" | "kind" | "status" | "runs">;
  readonly keys: PluginKeys;
  readonly schema: Schema<unknown>;
}

/** Keys of other programs, and comments. */
const FOREIGN_KEYS = { "^[_$/#]|[./]": {} };

/**
 * Describes the configuration of a plugin; of an IPAM plugin, what is in `ipam`.
 *
 * @param ipamTypes The IPAM plugins, whose schemas are `#/definitions/TYPE`
 */
export function describePlugin(
  { metadata, keys: table, schema }: DescribedPlugin,
  ipamTypes: readonly string[],
): JsonSchema {
  const { type, kind, status, runs } = metadata;
  const generated = z.toJSONSchema(
    schema as unknown as z.core.$ZodType,
    { io: "input", unrepresentable: "any", target: "draft-07" },
  ) as JsonSchema;
  const isIpam = kind === "ipam";
  const whole = describe(generated, { type, table, isIpam, path: "" });
  const { ipam, ...others } = whole.properties ?? {};
  const head = {
    title: isIpam ? `ipam of ${type}` : `${type} plugin`,
    description: toPlainText(table.text),
    ...status && { "x-status": status },
    examples: table.example === undefined ? [] : [table.example],
  };
  if (isIpam) {
    const { type: _, ...keys } = ipam?.properties ?? {};
    const properties = { type: { ...describeType(type) }, ...keys };
    return {
      ...head,
      ...close({ type: "object", properties }),
      required: ["type"],
    };
  }
  const needsIpam = table.required?.includes("ipam") === true;
  // The plugin's own, rather than its IPAM plugin's.
  const hasOwnIpam = runs?.ipamType !== undefined;
  const isPassive = ipam !== undefined && table.keys["ipam"] === undefined &&
    !needsIpam && !hasOwnIpam;
  const common = Object.entries(commonProperties())
    .filter(([key]) => others[key] === undefined);
  const {
    prevResult,
    daemonSocket,
    allowPersistentIPs,
    args,
    runtimeConfig,
    ...keys
  } = others;
  const given = {
    args,
    runtimeConfig,
    daemonSocket,
    allowPersistentIPs,
    prevResult,
  };
  const late = Object.entries(given)
    .filter(([, schema]) => schema !== undefined);
  // The plugin's own keys come first, as editors show them in this order.
  const properties = {
    type: describeType(type),
    ...keys,
    ...isPassive ? {} : {
      ipam: hasOwnIpam ? ipam : describeIpam(ipam, ipamTypes, needsIpam),
    },
    ...Object.fromEntries([...common, ...late]),
  } as Record<string, JsonSchema>;
  return {
    ...head,
    ...close({ type: "object", properties }),
    required: ["type", ...table.required ?? generated.required ?? []],
  };
}

function describeType(type: string): JsonSchema {
  return { const: type, ...describeCommon("type") };
}

/** Describes a key that means the same to all plugins. */
export function describeCommon(key: string): JsonSchema {
  return { description: toPlainText(COMMON_KEYS[key]?.text ?? "") };
}

function commonProperties(): Record<string, JsonSchema> {
  const string = { type: "string" };
  return {
    cniVersion: { ...describeCommon("cniVersion"), ...string },
    name: { ...describeCommon("name"), ...string },
    capabilities: {
      ...describeCommon("capabilities"),
      type: "object",
      additionalProperties: { type: "boolean" },
    },
    args: { ...describeCommon("args"), type: "object" },
    runtimeConfig: { ...describeCommon("runtimeConfig"), type: "object" },
    dns: { ...describeCommon("dns"), type: "object" },
  };
}

function describeIpam(
  ipam: JsonSchema | undefined,
  types: readonly string[],
  isRequired: boolean,
): JsonSchema {
  return {
    ...describeCommon("ipam"),
    ...ipam?.description === undefined ? {} : { description: ipam.description },
    type: "object",
    properties: {
      type: {
        type: "string",
        ...describeCommon("ipam.type"),
        anyOf: [{ enum: types }, {}],
      },
    },
    ...isRequired ? { required: ["type"] } : {},
    allOf: types.map((type) => ({
      if: { properties: { type: { const: type } }, required: ["type"] },
      then: { $ref: `#/definitions/${type}` },
    })),
  };
}

/** Where a schema is. */
interface Context {
  /** The plugin's type. */
  readonly type: string;
  readonly table: PluginKeys;
  readonly isIpam: boolean;
  /** Such as `ipam.ranges[][].subnet`. */
  readonly path: string;
}

/** Adds texts to a generated schema, and removes what editors do not need. */
function describe(schema: JsonSchema, context: Context): JsonSchema {
  const { properties, items, $schema: _, required: _required, ...others } =
    schema;
  const { path } = context;
  const describeItem = (item: JsonSchema): JsonSchema =>
    describe(item, { ...context, path: `${path}[]` });
  const known = {
    ...stripLimits(others),
    ...items && {
      items: isTuple(items) ? items.map(describeItem) : describeItem(items),
    },
    ...properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, value]) => {
          const inner = path === "" ? key : `${path}.${key}`;
          const described = describe(value, { ...context, path: inner });
          return [key, { ...describeKey(inner, context), ...described }];
        }),
      ),
    },
  };
  return properties === undefined || path === "" ? known : close(known);
}

/** Reports whether an array's items have a schema each. */
export function isTuple(
  items: NonNullable<JsonSchema["items"]>,
): items is readonly JsonSchema[] {
  return Array.isArray(items);
}

/** Refuses keys that plugins do not know. */
function close(schema: JsonSchema): JsonSchema {
  return Object.keys(schema.properties ?? {}).length === 0 ? schema : {
    ...schema,
    patternProperties: FOREIGN_KEYS,
    additionalProperties: false,
  };
}

/** Removes limits of JavaScript, and an empty `additionalProperties`. */
function stripLimits(schema: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schema).filter(([keyword, value]) =>
      !(keyword === "minimum" && value === Number.MIN_SAFE_INTEGER) &&
      !(keyword === "maximum" && value === Number.MAX_SAFE_INTEGER) &&
      !(keyword === "additionalProperties" && isEmpty(value))
    ),
  );
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null &&
    Object.keys(value).length === 0;
}

/**
 * Finds what a key is: the plugin's description, or the common description for
 * the end of its path.
 */
function findDescription(
  path: string,
  { keys }: Pick<PluginKeys, "keys">,
): KeyDescription {
  const end = Object.keys(COMMON_KEYS)
    .filter((end) =>
      path === end || path.endsWith(`.${end}`) ||
      path.endsWith(end) && end.includes("[]")
    )
    .sort((left, right) => right.length - left.length)[0];
  return { ...end === undefined ? {} : COMMON_KEYS[end], ...keys[path] };
}

/** Finds the text, limits and default of a key, and an example. */
function describeKey(
  path: string,
  { type: plugin, table, isIpam }: Context,
): JsonSchema {
  const short = isIpam ? path.replace(/^ipam\./, "") : path;
  const key = findDescription(short, table);
  const { text = "", since, default: fallback = "", type = "" } = key;
  const example = key.example ?? findExample(plugin, table, path);
  const plain = toPlainText(text);
  return {
    ...plain === ""
      ? {}
      : { description: /[.!]$/.test(plain) ? plain : `${plain}.` },
    ...readDefault(fallback),
    ...readRange(type),
    ...example === undefined ? {} : { examples: [example] },
    ...since === undefined ? {} : { "x-since": since },
  };
}

/** `false`, a number, or code. */
function readDefault(cell: string): JsonSchema {
  const [, code] = /^`([^`]*)`$/.exec(cell) ?? [];
  if (code === undefined) {
    return cell === "" || cell === "none" || cell === "required"
      ? {}
      : { "x-default": cell.replaceAll("`", "") };
  }
  try {
    return { default: JSON.parse(code) };
  } catch {
    return { default: code };
  }
}

function readRange(type: string): JsonSchema {
  const [, minimum, maximum] = /(\d+) to (\d+)/.exec(type) ?? [];
  if (minimum === undefined || maximum === undefined) return {};
  return { minimum: Number(minimum), maximum: Number(maximum) };
}

/** Finds a key's value in the plugin's example. */
function findExample(
  plugin: string,
  { example = {} }: PluginKeys,
  path: string,
): unknown {
  const { plugins } = example;
  const confs: unknown[] = Array.isArray(plugins) ? [...plugins] : [example];
  return confs.filter((conf) =>
    valueOf(conf, "type").includes(plugin) ||
    valueOf(valueOf(conf, "ipam")[0], "type").includes(plugin)
  ).flatMap((conf) =>
    path.split(".").reduce<unknown[]>((found, part) => {
      const key = part.replaceAll("[]", "");
      const depth = part.split("[]").length - 1;
      const inner = found.flatMap((value) => valueOf(value, key));
      return Array.from({ length: depth })
        .reduce<unknown[]>((items) => items.flat(), inner);
    }, [conf])
  )[0];
}

function valueOf(value: unknown, key: string): unknown[] {
  if (!isObject(value)) return [];
  const found = (value as JsonObject)[key];
  return found === undefined ? [] : [found];
}

/** Removes links and marks of code. */
function toPlainText(markdown: string): string {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(
      / ?\((see|in) [^)]*\)|[;,] see [^.;,]*(, also for [^.]*)?|(In a chain see|See) [^.]*\.$/g,
      "",
    )
    .replace(/[`*]/g, "").replaceAll("\\|", "|").trim();
}

/** Builds the schema, at every depth. */
export function schemaOfKeys(schema: JsonSchema): Schema<unknown> {
  return build(schema);
}

function build({ properties, items }: JsonSchema): z.ZodMiniType {
  if (items !== undefined) {
    return isTuple(items) ? z.array(z.unknown()) : z.array(build(items));
  }
  if (properties === undefined) return z.unknown();
  return z.looseObject(
    Object.fromEntries(
      Object.entries(properties)
        .map(([key, inner]) => [key, z.optional(build(inner))]),
    ),
  );
}
