/**
 * Writes the JSON Schemas of plugins, the tables of their keys, and the parts of
 * pages that come from the source.
 *
 * @module
 */

import { makeSchemas } from "../../cli/explain/make.ts";
import { selectSchema } from "../../cli/explain/schemas.ts";
import { runDeno } from "../project.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { formatKeyTables, formatTraits } from "./key_tables.ts";
import { withLayerExceptions } from "./layer_exceptions.ts";
import { withPluginParts } from "./plugin_pages.ts";

/** Writes a file for each plugin, and for lists and bare plugins. */
export async function writeSchemas(directory: string): Promise<void> {
  await Deno.mkdir(directory, { recursive: true });
  const list = await makeSchemas();
  for (const name of ["conflist", "conf", ...pluginNames]) {
    const text = JSON.stringify(selectSchema(list, name), null, 2);
    await Deno.writeTextFile(`${directory}/${name}.json`, `${text}\n`);
  }
}

/**
 * Writes the tables of keys and of traits.
 *
 * @param root The project's root, which ends in `/`
 */
export async function writeKeyTables(root: string): Promise<void> {
  const lists = `${root}plugins/lists`;
  await Deno.writeTextFile(`${lists}/key_tables.ts`, await formatKeyTables());
  await Deno.writeTextFile(`${lists}/traits.ts`, formatTraits());
}

/**
 * Writes the first paragraphs and the examples of the plugins' pages, which come from
 * the plugins' metadata, and the list of imports in ARCHITECTURE.md.
 *
 * @param root The project's root, which ends in `/`
 */
export async function writePages(root: string): Promise<void> {
  const pages: string[] = [];
  for await (const { name } of Deno.readDir(`${root}docs`)) {
    if (!name.endsWith(".md")) continue;
    const page = `${root}docs/${name}`;
    pages.push(page);
    const text = await Deno.readTextFile(page);
    const written = await withPluginParts(text, { mayLack: true });
    if (written !== text) await Deno.writeTextFile(page, written);
  }
  const architecture = `${root}ARCHITECTURE.md`;
  pages.push(architecture);
  const text = await Deno.readTextFile(architecture);
  await Deno.writeTextFile(architecture, withLayerExceptions(text));
  await runDeno(["fmt", "--quiet", ...pages], { cwd: root });
}
