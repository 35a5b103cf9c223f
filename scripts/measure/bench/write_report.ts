/**
 * The files in which the results stay.
 *
 * @module
 */

import { chooseOverview, drawBars } from "./bar_chart.ts";
import { drawCurves } from "./curve_chart.ts";
import type { Report } from "./report.ts";
import { describeLines, formatMarkdown } from "./table.ts";

/**
 * Writes the results: the document, tables and a chart, as `bench.*`, or
 * `growth.*` if they are of growth, and a smaller chart of pods alone. Writes
 * nothing without rows.
 *
 * @param directory Made if it is not there
 * @returns The files
 */
export async function writeReport(
  report: Report,
  directory: string,
): Promise<string[]> {
  const { growth, rows, machine } = report;
  if (rows.length === 0) return [];
  const draw = growth ? drawCurves : drawBars;
  const lines = describeLines(machine);
  const overview = growth ? [] : chooseOverview(rows);
  const contents = {
    "json": JSON.stringify(report, null, 2) + "\n",
    "md": formatMarkdown(report),
    "svg": draw(rows, lines),
    ...overview.length > 0 ? { "overview.svg": drawBars(overview, lines) } : {},
  };
  await Deno.mkdir(directory, { recursive: true });
  const files: string[] = [];
  for (const [extension, text] of Object.entries(contents)) {
    const file = `${directory}/${growth ? "growth" : "bench"}.${extension}`;
    await Deno.writeTextFile(file, text);
    files.push(file);
  }
  return files;
}
