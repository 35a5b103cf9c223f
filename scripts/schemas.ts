/**
 * Writes what is made from the sources: the lists of plugins in `plugins/lists`,
 * the tables of their keys there and in `docs`, and the JSON Schemas in `dist/schemas`: `deno task schemas`.
 *
 * @module
 */

import { answerHelp } from "./command_line.ts";
import { writePluginLists } from "./schemas/plugin_lists.ts";

if (import.meta.main) {
  answerHelp(
    `Write the lists of plugins and the tables of their keys to plugins/lists,
the keys to the pages of docs, and the JSON Schemas to dist/schemas.

Usage: deno task schemas`,
  );
  const root = new URL("../", import.meta.url).pathname;
  await writePluginLists(root);
  // It imports the lists.
  const { writeKeyTables, writePages, writeSchemas } = await import(
    "./schemas/write.ts"
  );
  await writeKeyTables(root);
  await writePages(root);
  await writeSchemas(`${root}dist/schemas`);
}
