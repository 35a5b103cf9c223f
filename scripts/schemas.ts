/**
 * Writes the JSON Schemas of plugins to `dist/schemas`, and tables of keys to
 * `cni/`: `deno task schemas`.
 *
 * @module
 */

import { makeSchemas } from "../cli/schema/make.ts";
import { selectSchema } from "../cli/schema/schemas.ts";
import { pluginNames } from "../plugins/registry.ts";
import { answerHelp } from "./help.ts";
import { formatKeyTables } from "./schemas/key_tables.ts";

/** Writes a file for each plugin, and for lists and bare plugins. */
export async function writeSchemas(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  const list = await makeSchemas();
  for (const name of ["conflist", "conf", ...pluginNames]) {
    const text = JSON.stringify(selectSchema(list, name), null, 2);
    await Deno.writeTextFile(`${folder}/${name}.json`, `${text}\n`);
  }
}

if (import.meta.main) {
  answerHelp(
    `Write the JSON Schemas of all plugins to dist/schemas, and the tables of keys
in cni/.

Usage: deno task schemas`,
  );
  const root = new URL("../", import.meta.url).pathname;
  for (const [path, text] of Object.entries(formatKeyTables())) {
    await Deno.writeTextFile(`${root}${path}`, text);
  }
  await writeSchemas(`${root}dist/schemas`);
}
