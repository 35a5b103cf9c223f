/**
 * Generates JSON Schemas of plugins and lists of plugins: structure and limits
 * from the schemas that decode them, texts from the pages in docs/.
 *
 * @module
 */

import * as z from "zod/mini";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { findAbout } from "../../plugins/abouts.ts";
import { pluginNames, registry } from "../../plugins/registry.ts";
import { SINCE } from "./since.ts";
import { type KeyRow, type Page, parsePage } from "./tables.ts";
import { COMMON_TEXTS, LIST_TEXTS, REQUIRED } from "./texts.ts";

/** A JSON Schema. Source: draft-07, which editors know best. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
}

const DRAFT = "http://json-schema.org/draft-07/schema#";

/** IPAM plugins: their schema is that of `ipam`. */
const IPAM_TYPES: readonly string[] = pluginNames
  .filter((type) => findAbout(type)?.kind === "ipam");

/** Keys of other programs, and comments. */
const FOREIGN_KEYS = { "^[_$/#]|[./]": {} };

/** Generates the schemas by file name, without `.json`. */
export async function generateSchemas(
  docs: URL,
): Promise<Record<string, JsonSchema>> {
  const definitions: Record<string, JsonSchema> = {};
  for (const type of pluginNames) {
    definitions[type] = await describePlugin(type, docs);
  }
  const plugin = choosePlugin(
    pluginNames.filter((type) => !IPAM_TYPES.includes(type)),
  );
  const files: Record<string, JsonSchema> = {
    "conflist": describeList(plugin, definitions),
    "conf": {
      $schema: DRAFT,
      title: "CNI plugin configuration",
      description: "A bare plugin, in a file *.conf.",
      ...plugin,
      required: ["cniVersion", "name", "type"],
      definitions,
    },
  };
  for (const type of pluginNames) {
    const { $ref: _, ...own } = definitions[type] ?? {};
    const ipam = Object.fromEntries(
      IPAM_TYPES.map((type) => [type, definitions[type] ?? {}]),
    );
    files[type] = {
      $schema: DRAFT,
      ...own,
      ...JSON.stringify(own).includes("#/definitions/")
        ? { definitions: ipam }
        : {},
    };
  }
  return files;
}

function describeList(
  plugin: JsonSchema,
  definitions: Record<string, JsonSchema>,
): JsonSchema {
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
        { description: LIST_TEXTS[key], ...schema },
      ]),
    ),
    definitions,
  };
}

/** Chooses the schema by the type; other projects' plugins may have any keys. */
function choosePlugin(types: readonly string[]): JsonSchema {
  return {
    type: "object",
    required: ["type"],
    properties: {
      type: {
        type: "string",
        description: COMMON_TEXTS["type"],
        // Offered by editors; any other type is valid too.
        anyOf: [{ enum: types }, {}],
      },
    },
    allOf: types.map((type) => ({
      if: { properties: { type: { const: type } }, required: ["type"] },
      then: { $ref: `#/definitions/${type}` },
    })),
  };
}

async function describePlugin(type: string, docs: URL): Promise<JsonSchema> {
  const page = parsePage(await readPage(type, docs));
  const plugin = await registry[type]?.();
  const generated = z.toJSONSchema(
    await plugin?.configSchema() as unknown as z.core.$ZodType,
    { io: "input", unrepresentable: "any", target: "draft-07" },
  ) as JsonSchema;
  const isIpam = IPAM_TYPES.includes(type);
  const whole = describe(generated, { type, page, path: "" });
  const { ipam, ...others } = whole.properties ?? {};
  const about = {
    title: isIpam ? `ipam of ${type}` : `${type} plugin`,
    description: page.about,
    examples: page.examples.slice(0, 1),
  };
  if (isIpam) {
    const own = ipam?.properties ?? {};
    const { type: _, ...keys } = own;
    const properties = { type: { ...describeType(type) }, ...keys };
    return {
      ...about,
      ...close({ type: "object", properties }),
      required: ["type"],
    };
  }
  const isPassive = ipam !== undefined &&
    !page.rows.some(({ key }) => key === "ipam") &&
    !(REQUIRED[type] ?? []).includes("ipam") && type !== "flannel";
  const common = Object.entries(commonProperties())
    .filter(([key]) => others[key] === undefined);
  const { prevResult, daemonSocket, args, runtimeConfig, ...keys } = others;
  const late = Object.entries({ args, runtimeConfig, daemonSocket, prevResult })
    .filter(([, schema]) => schema !== undefined);
  const ownIpam = type === "flannel" ? ipam : describeIpam(ipam, type);
  // The plugin's own keys come first, as editors show them in this order.
  const properties = {
    type: describeType(type),
    ...keys,
    ...isPassive ? {} : { ipam: ownIpam },
    ...Object.fromEntries([...common, ...late]),
  } as Record<string, JsonSchema>;
  const own: JsonSchema = {
    ...about,
    ...close({ type: "object", properties }),
  };
  return {
    ...own,
    required: ["type", ...REQUIRED[type] ?? requiredOf(generated)],
  };
}

function requiredOf({ required }: JsonSchema): string[] {
  return Array.isArray(required) ? required : [];
}

async function readPage(type: string, docs: URL): Promise<string> {
  const [name, section] = (findAbout(type)?.page ?? type).split("#");
  const page = await Deno.readTextFile(new URL(`${name}.md`, docs));
  if (section === undefined) return page;
  return page.slice(page.indexOf(`### ${section}`)).split(/^## /m)[0] ?? "";
}

function describeType(type: string): JsonSchema {
  return { const: type, description: COMMON_TEXTS["type"] };
}

function commonProperties(): Record<string, JsonSchema> {
  const string = { type: "string" };
  return {
    cniVersion: { description: COMMON_TEXTS["cniVersion"], ...string },
    name: { description: COMMON_TEXTS["name"], ...string },
    capabilities: {
      description: COMMON_TEXTS["capabilities"],
      type: "object",
      additionalProperties: { type: "boolean" },
    },
    args: { description: COMMON_TEXTS["args"], type: "object" },
    runtimeConfig: {
      description: COMMON_TEXTS["runtimeConfig"],
      type: "object",
    },
    dns: { description: COMMON_TEXTS["dns"], type: "object" },
  };
}

function describeIpam(ipam: JsonSchema | undefined, type: string): JsonSchema {
  return {
    description: ipam?.["description"] ?? COMMON_TEXTS["ipam"],
    type: "object",
    properties: {
      type: {
        type: "string",
        description: COMMON_TEXTS["ipam.type"],
        anyOf: [{ enum: IPAM_TYPES }, {}],
      },
    },
    ...(REQUIRED[type] ?? []).includes("ipam") ? { required: ["type"] } : {},
    allOf: IPAM_TYPES.map((ipamType) => ({
      if: { properties: { type: { const: ipamType } }, required: ["type"] },
      then: { $ref: `#/definitions/${ipamType}` },
    })),
  };
}

/** Where a schema is. */
interface Context {
  readonly type: string;
  readonly page: Page;
  /** Such as `ipam.ranges[][].subnet`. */
  readonly path: string;
}

/** Adds texts to a generated schema, and removes what editors do not need. */
function describe(schema: JsonSchema, context: Context): JsonSchema {
  const { properties, items, $schema: _, required: _required, ...others } =
    schema;
  const { path } = context;
  const known = {
    ...stripLimits(others),
    ...items && { items: describe(items, { ...context, path: `${path}[]` }) },
    ...properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, value]) => {
          const inner = path === "" ? key : `${path}.${key}`;
          const described = describe(value, { ...context, path: inner });
          checkType(inner, value, context);
          return [key, { ...findText(inner, context), ...described }];
        }),
      ),
    },
  };
  return properties === undefined || path === "" ? known : close(known);
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

/** Finds the text, limits and default of a key, and an example. */
function findText(path: string, { type, page }: Context): JsonSchema {
  const row = findRow(path, page);
  const suffix = Object.keys(COMMON_TEXTS)
    .filter((end) =>
      path === end || path.endsWith(`.${end}`) ||
      path.endsWith(end) && end.includes("[]")
    )
    .sort((left, right) => right.length - left.length)[0];
  const common = suffix === undefined ? undefined : COMMON_TEXTS[suffix];
  const text = row?.meaning || common;
  if (text === undefined) {
    throw new Error(
      `docs/${type}.md has no row for "${path}", nor scripts/schemas/texts.ts`,
    );
  }
  const example = page.examples.flatMap((config) =>
    findExample(config, type, path)
  )
    .slice(0, 1);
  const since = SINCE[`${type}.${path.replace(/^ipam\./, "")}`];
  return {
    description: /[.!]$/.test(text) ? text : `${text}.`,
    ...row && readDefault(row.default),
    ...row && readRange(row.type),
    ...example.length > 0 ? { examples: example } : {},
    ...since === undefined ? {} : { "x-since": since },
  };
}

/** What the pages call the types of JSON Schema. */
const TYPE_WORDS: Readonly<Record<string, string>> = {
  "boolean": "boolean",
  "integer": "integer",
  "list": "array",
  "number": "number",
  "object": "object",
  "string": "string",
};

/** Checks that a page gives a key the type that the schema has. */
function checkType(
  path: string,
  { type: actual }: JsonSchema,
  { type, page }: Context,
): void {
  const [word = ""] = findRow(path, page)?.type.split(/[^a-z]/) ?? [];
  const stated = TYPE_WORDS[word];
  if (stated === undefined || actual === undefined || stated === actual) return;
  // Integers beyond 2^53 are numbers in a schema.
  if (stated === "integer" && actual === "number") return;
  throw new Error(
    `docs/${type}.md: "${path}" is of type ${actual}, not "${word}"`,
  );
}

/** Tables of items of lists come after those of the keys themselves. */
function findRow(path: string, { rows }: Page): KeyRow | undefined {
  const exact = rows.find(({ key }) => key === path);
  if (exact !== undefined) return exact;
  const isNested = /\.(cni|dns)\.|^(runtimeConfig|args|dns|logOptions)\./.test(
    path,
  );
  if (isNested) return undefined;
  const name = path.split(".").at(-1)?.replaceAll("[]", "");
  const named = rows.filter(({ key }) => key === name);
  if (
    /routes\[\]|kubernetes\.|vlanTrunk\[\]|addresses\[\]|provide|request/.test(
      path,
    ) &&
    path.includes("[]")
  ) {
    return undefined;
  }
  if (path.includes("ipRanges[][]")) return undefined;
  return path.includes("[]") ? named.at(-1) : named[0];
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

/** Finds a key's value in an example, which may be a list. */
function findExample(
  config: Record<string, unknown>,
  type: string,
  path: string,
): unknown[] {
  const plugins = Array.isArray(config["plugins"])
    ? config["plugins"]
    : [config];
  return plugins.flatMap((plugin: unknown) => {
    const values = path.split(".").reduce<unknown[]>((found, part) => {
      const key = part.replaceAll("[]", "");
      const depth = part.split("[]").length - 1;
      const inner = found.flatMap((value) => valueOf(value, key));
      return Array.from({ length: depth }).reduce<unknown[]>(
        (items) => items.flat(),
        inner,
      );
    }, [plugin]);
    const isOwn = valueOf(plugin, "type").includes(type) ||
      valueOf(valueOf(plugin, "ipam")[0], "type").includes(type);
    return isOwn ? values : [];
  });
}

function valueOf(value: unknown, key: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const found = (value as Record<string, unknown>)[key];
  return found === undefined ? [] : [found];
}
