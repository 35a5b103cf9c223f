/**
 * Makes tables from what plugins say of themselves, for code that does not load that:
 * keys that name something of the node, secret keys, and traits.
 *
 * @module
 */

import type { PluginMetadata } from "../../metadata/plugin_metadata.ts";
import { COMMON_KEYS } from "../../metadata/common_keys.ts";
import type { KeyDescription, PluginKeys } from "../../metadata/plugin_keys.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import type { NodeKey } from "../../plugins/node_keys.ts";

/**
 * Lists the keys, sorted.
 *
 * @throws {Error} If a key names different things
 */
function listNodeKeys(plugins: readonly PluginKeys[]): NodeKey[] {
  const rows = [COMMON_KEYS, ...plugins.map(({ keys }) => keys)]
    .flatMap((keys) => Object.entries<KeyDescription>(keys))
    .flatMap(([path, { names, usual = [] }]) => {
      const key = path.split(".").at(-1) ?? "";
      return names === undefined ? [] : [{ key, names, usual }];
    });
  return [...Map.groupBy(rows, ({ key }) => key)].map(([key, same]) => {
    const [names, ...others] = new Set(same.map(({ names }) => names));
    if (names === undefined || others.length > 0) {
      throw new Error(`"${key}" names ${[names, ...others].join(" and ")}`);
    }
    const usual = [...new Set(same.flatMap(({ usual }) => usual))].sort();
    return { key, names, ...usual.length > 0 && { usual } };
  }).sort((left, right) => left.key < right.key ? -1 : 1);
}

function listSecretKeys(plugins: readonly PluginKeys[]): string[] {
  const keys = plugins.flatMap(({ keys }) =>
    Object.entries(keys).flatMap(([path, { isSecret }]) =>
      isSecret ? path.split(".").slice(-1) : []
    )
  );
  return [...new Set(keys)].sort();
}

/** Formats `plugins/lists/traits.ts`. */
export function formatTraits(): string {
  const formatRows = (valueOf: (plugin: PluginMetadata) => unknown): string =>
    [...METADATA.values()].flatMap((plugin) => {
      const { type, otherTypes = [] } = plugin;
      return [type, ...otherTypes].map((name) => [name, valueOf(plugin)]);
    }).filter(([, value]) => value !== undefined)
      .map((row) => JSON.stringify(row)).sort()
      .map((row) => `  ${row},\n`).join("");
  return `/**
 * What plugins declare to other plugins, which do not load their metadata.
 * \`deno task schemas\` writes it from the metadata of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { PluginTrait, SegmentKeys } from "../../metadata/plugin_metadata.ts";

/** The traits by type. */
export const TRAITS: ReadonlyMap<string, readonly PluginTrait[]> = new Map([
${formatRows(({ traits }) => traits)}]);

/** The keys that decide on the segment of a network, by type. */
export const SEGMENTS: ReadonlyMap<string, SegmentKeys> = new Map([
${formatRows(({ network }) => network?.segment)}]);
`;
}

/** Formats `plugins/lists/key_tables.ts`. */
export async function formatKeyTables(): Promise<string> {
  const plugins = await Promise.all(
    [...METADATA.values()].map(({ keys }) => keys()),
  );
  const rows = listNodeKeys(plugins).map(({ key, names, usual = [] }) =>
    `  ${JSON.stringify([key, names, ...usual])},\n`
  );
  return `/**
 * Keys of plugins, for code that does not load the plugins' metadata.
 * \`deno task schemas\` writes it from the metadata of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { Named } from "../../metadata/plugin_keys.ts";

/**
 * A key that names something of the node, what it names, and the usual values.
 * Sorted by key.
 */
export const PLUGIN_NODE_KEYS: readonly (readonly [
  key: string,
  names: Named,
  ...usual: string[],
])[] = [
${rows.join("")}];

/** The keys that are secret. Sorted. */
export const SECRET_KEYS: readonly string[] = ${
    JSON.stringify(listSecretKeys(plugins))
  };
`;
}
