/**
 * Writes the JSON Schemas of plugins, the tables of their keys, and the page of
 * findings.
 *
 * @module
 */

import { makeSchemas } from "../../cli/explain/make.ts";
import { selectSchema } from "../../cli/explain/schemas.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { formatFindingsPage } from "./findings_page.ts";
import { formatKeyTables } from "./key_tables.ts";

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
 * Writes the tables of keys.
 *
 * @param root The project's root, which ends in `/`
 */
export async function writeKeyTables(root: string): Promise<void> {
  for (const [path, text] of Object.entries(formatKeyTables())) {
    await Deno.writeTextFile(`${root}${path}`, text);
  }
}

/**
 * Writes docs/findings.md.
 *
 * @param root The project's root, which ends in `/`
 */
export async function writeFindingsPage(root: string): Promise<void> {
  const path = `${root}docs/findings.md`;
  await Deno.writeTextFile(path, formatFindingsPage());
  const args = ["fmt", "--quiet", path];
  await new Deno.Command(Deno.execPath(), { args }).output();
}
