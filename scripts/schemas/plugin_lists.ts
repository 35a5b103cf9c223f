/**
 * Makes the lists of plugins from their directories: those of `plugins/` and
 * `ipam/` that have a `plugin.ts` and a `metadata.ts`.
 *
 * Imports no list, so it works after a directory has come or gone.
 *
 * @module
 */

import type { Plugin } from "../../cni/plugin.ts";
import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";

/** Directories of plugins. */
const PLACES = ["plugins", "ipam"];

/** Where the lists are. */
const LISTS = "plugins/lists";

/** A directory of a plugin. */
interface PluginDirectory {
  /** The plugin's type. */
  readonly type: string;
  /** From the project's root, such as `ipam/host_local`. */
  readonly path: string;
  /** What `plugin.ts` exports. */
  readonly exported: Readonly<Record<string, unknown>>;
}

/**
 * Makes the lists.
 *
 * @param root The project's root, an absolute path that ends in `/`
 * @returns Their texts, by path from the root
 */
export async function formatPluginLists(
  root: string,
): Promise<Record<string, string>> {
  const plugins = await readPlugins(root);
  return {
    [`${LISTS}/loaders.ts`]: formatLoaders(plugins),
    [`${LISTS}/metadata.ts`]: formatMetadata(plugins),
  };
}

/**
 * Writes the lists.
 *
 * @param root See {@linkcode formatPluginLists}
 */
export async function writePluginLists(root: string): Promise<void> {
  await Deno.mkdir(`${root}${LISTS}`, { recursive: true });
  for (const [path, text] of Object.entries(await formatPluginLists(root))) {
    await Deno.writeTextFile(`${root}${path}`, text);
  }
}

async function readPlugins(root: string): Promise<PluginDirectory[]> {
  const plugins: PluginDirectory[] = [];
  for (const place of PLACES) {
    for await (const { name } of Deno.readDir(`${root}${place}`)) {
      const path = `${place}/${name}`;
      const files = listFiles(`${root}${path}`);
      if (!files.has("plugin.ts") || !files.has("metadata.ts")) continue;
      const { metadata }: { metadata: BuiltInMetadata } = await import(
        `${root}${path}/metadata.ts`
      );
      const exported = await import(`${root}${path}/plugin.ts`);
      plugins.push({ type: metadata.type, path, exported });
    }
  }
  return plugins.sort((one, other) => one.type < other.type ? -1 : 1);
}

function listFiles(path: string): Set<string> {
  if (!Deno.statSync(path).isDirectory) return new Set();
  return new Set([...Deno.readDirSync(path)].map(({ name }) => name));
}

/** @throws {Error} If `plugin.ts` exports no plugin of the type */
function findExport(
  { type, path, exported }: PluginDirectory,
): [name: string, plugin: Plugin] {
  for (const [name, value] of Object.entries(exported)) {
    if (isPlugin(value) && value.name === type) return [name, value];
  }
  throw new Error(`${path}/plugin.ts exports no plugin named "${type}"`);
}

function isPlugin(value: unknown): value is Plugin {
  return typeof value === "object" && value !== null &&
    "versions" in value && "configSchema" in value && "name" in value;
}

const HEAD = "`deno task schemas` writes it.\n *\n * @module\n */\n\n" +
  "// deno-fmt-ignore-file\n";

function formatLoaders(plugins: readonly PluginDirectory[]): string {
  const rows = plugins.map((plugin) => {
    const [name] = findExport(plugin);
    return `  "${plugin.type}": async () => ` +
      `(await import("${importPath(plugin)}/plugin.ts")).${name},\n`;
  });
  const since = plugins.flatMap((plugin) => {
    const [, { versions: [first = ""] }] = findExport(plugin);
    return first === SPEC_VERSIONS[0]
      ? []
      : [`  "${plugin.type}": "${first}",\n`];
  });
  return `/**
 * Loaders of the plugins. ${HEAD}
import type { Plugin } from "../../cni/plugin.ts";
import type { SpecVersion } from "../../cni/version.ts";

/** By type. */
export const LOADERS: Readonly<Record<string, () => Promise<Plugin>>> = {
${rows.join("")}};

/** The first supported version of the specification, if it is not the oldest one. */
export const SERVED_SINCE: Readonly<Record<string, SpecVersion>> = {
${since.join("")}};
`;
}

function importPath({ path }: PluginDirectory): string {
  return path.replace(/^plugins\//, "../").replace(/^ipam\//, "../../ipam/");
}

function formatMetadata(plugins: readonly PluginDirectory[]): string {
  const names = plugins.map(({ path }) =>
    path.replace(/.*\//, "").replaceAll(
      /_(.)/g,
      (_, first) => first.toUpperCase(),
    ) + "BuiltInMetadata"
  );
  const imports = plugins.map((plugin, index) =>
    `import { metadata as ${names[index]} } from "${
      importPath(plugin)
    }/metadata.ts";\n`
  );
  return `/**
 * What tools know about the plugins. ${HEAD}
import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
${imports.join("")}
/** By type. */
export const METADATA: ReadonlyMap<string, BuiltInMetadata> = new Map([
${
    names.map((name) => `  ${name},\n`).join("")
  }].map((metadata) => [metadata.type, metadata]));
`;
}
