/**
 * Writes what is made from the sources: the lists of plugins in `plugins/lists`,
 * the tables of keys in `cni/config`, the page of doctor's findings in `docs`, and
 * the JSON Schemas in `dist/schemas`: `deno task schemas`.
 *
 * @module
 */

import { answerHelp } from "./help.ts";
import { writePluginLists } from "./schemas/plugin_lists.ts";

if (import.meta.main) {
  answerHelp(
    `Write the lists of plugins to plugins/lists, the tables of their keys to
cni/config, the findings of cni doctor to docs, and the JSON Schemas to
dist/schemas.

Usage: deno task schemas`,
  );
  const root = new URL("../", import.meta.url).pathname;
  await writePluginLists(root);
  // It imports the lists.
  const { writeFindingsPage, writeKeyTables, writeSchemas } = await import(
    "./schemas/write.ts"
  );
  await writeKeyTables(root);
  await writeFindingsPage(root);
  await writeSchemas(`${root}dist/schemas`);
}
