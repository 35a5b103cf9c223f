/**
 * Writes the figures of the documentation.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { ROOT } from "../../compile/project.ts";
import { exists } from "../../exists.ts";
import {
  parseTables,
  replaceSections,
  shortenTables,
  updatePerformance,
  updateReadme,
} from "./figures.ts";

const TABLES = `${ROOT}docs/performance-tables.md`;
const PERFORMANCE = `${ROOT}docs/performance.md`;
const README = `${ROOT}README.md`;

/**
 * Takes over the tables of a run, the picture beside them, and the figures of the
 * pages that quote them.
 *
 * @param results A `bench.md`; docs/performance-tables.md itself for the pages only
 */
export async function writeFigures(results: string): Promise<void> {
  const page = replaceSections(
    await Deno.readTextFile(TABLES),
    shortenTables(await Deno.readTextFile(results)),
  );
  const tables = parseTables(page);
  const [performance = "", readme = ""] = await Promise.all(
    [PERFORMANCE, README].map((file) => Deno.readTextFile(file)),
  );
  // Nothing is written if one of them cannot be.
  const pages: readonly (readonly [string, string])[] = [
    [TABLES, page],
    [PERFORMANCE, updatePerformance(performance, tables)],
    [README, updateReadme(readme, tables)],
  ];
  for (const [file, text] of pages) await Deno.writeTextFile(file, text);
  const picture = `${dirname(results)}/bench.overview.svg`;
  if (exists(picture)) {
    await Deno.copyFile(picture, `${ROOT}docs/performance.svg`);
  }
  await new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--quiet", ...pages.map(([file]) => file)],
  }).output();
}
