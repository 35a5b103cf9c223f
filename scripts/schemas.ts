/**
 * Writes what is made from the sources: the lists of plugins in `plugins/lists`,
 * the tables of their keys there and in `docs`, and the JSON Schemas in `dist/schemas`: `deno task schemas`.
 *
 * @module
 */

import { ifPossible } from "../base/files/io.ts";
import { answerHelp } from "./command_line.ts";
import { writePluginLists } from "./schemas/plugin_lists.ts";

/** Where it writes. */
const PLACES = ["plugins/lists", "docs", "dist/schemas"];

/** Reads the files in the places, by path. */
function readWritten(root: string): Map<string, string> {
  return new Map(PLACES.flatMap((place) => {
    const entries = ifPossible(() => [...Deno.readDirSync(root + place)]) ?? [];
    return entries.filter(({ isFile }) => isFile).map(({ name }) => {
      const path = `${place}/${name}`;
      return [path, Deno.readTextFileSync(root + path)] as const;
    });
  }));
}

/** Lists the files that are new, or have another text than before. */
export function listChanged(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  return [...after].filter(([path, text]) => before.get(path) !== text)
    .map(([path]) => path).sort();
}

if (import.meta.main) {
  answerHelp(
    `Write the lists of plugins and the tables of their keys to plugins/lists,
the keys to the pages of docs, and the JSON Schemas to dist/schemas.

Usage: deno task schemas`,
  );
  const root = new URL("../", import.meta.url).pathname;
  const before = readWritten(root);
  await writePluginLists(root);
  // It imports the lists.
  const { writeKeyTables, writePages, writeSchemas } = await import(
    "./schemas/write.ts"
  );
  await writeKeyTables(root);
  await writePages(root);
  await writeSchemas(`${root}dist/schemas`);
  const changed = listChanged(before, readWritten(root));
  const report = changed.map((path) => `Wrote ${path}`);
  console.log(report.join("\n") || "Nothing has changed");
}
