/**
 * Writes the matrix of docs/conformance.md from results of `cni conform --json`:
 *
 *     deno run -A scripts/conformance_page.ts NAME=RESULTS.json...
 *
 * All executables of the files with one NAME become a table of their own.
 *
 * @module
 */

import type { Report } from "../testing/conform/report.ts";
import { DEMANDS } from "../testing/conform/rows/all.ts";

const PAGE = new URL("../docs/conformance.md", import.meta.url);
const BEGIN = "<!-- Matrix: written by scripts/conformance_page.ts -->";
const END = "<!-- End of the matrix -->";

/** What a cell shows. */
const MARKS = { kept: "✓", broken: "✗", untried: "–" } as const;

/** Formats a table: a row for each demand that is broken by any, and a sum. */
export function formatMatrix(reports: readonly Report[]): string {
  const outcomeOf = (report: Report, id: string): string => {
    const row = report.rows.find((one) => one.id === id);
    return row === undefined ? "" : MARKS[row.outcome];
  };
  const heads = ["demand", "strength", ...reports.map(({ name }) => name)];
  const shown = DEMANDS.filter(({ id }) =>
    reports.some((report) => outcomeOf(report, id) === MARKS.broken)
  );
  const lines = shown.map(({ id, strength }) => [
    `\`${id}\``,
    strength,
    ...reports.map((report) => outcomeOf(report, id)),
  ]);
  const sum = (outcome: keyof typeof MARKS): string[] => [
    `_${outcome}_`,
    "",
    ...reports.map(({ rows }) =>
      String(rows.filter((row) => row.outcome === outcome).length)
    ),
  ];
  const all = [heads, heads.map(() => "---"), ...lines];
  return [...all, sum("kept"), sum("broken"), sum("untried")]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Puts texts between the marks of a page. */
export function fillPage(page: string, text: string): string {
  const [start, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (start < 0 || end < start) throw new Error("The page has no marks");
  return `${page.slice(0, start)}${BEGIN}\n\n${text}\n\n${page.slice(end)}`;
}

if (import.meta.main) {
  const byName = Map.groupBy(
    Deno.args.map((arg): [string, string] => {
      const at = arg.indexOf("=");
      return [arg.slice(0, at), arg.slice(at + 1)];
    }),
    ([name]) => name,
  );
  const parts = [...byName].map(([name, files]) => {
    const reports = files.flatMap(([, path]): Report[] =>
      JSON.parse(Deno.readTextFileSync(path)).executables ?? []
    );
    return `### ${name}\n\n${formatMatrix(reports)}`;
  });
  const page = await Deno.readTextFile(PAGE);
  await Deno.writeTextFile(PAGE, fillPage(page, parts.join("\n\n")));
}
