/**
 * The page that a run makes of the conformance rows: in which ways and kernels
 * each was run, and what was skipped and why.
 *
 * @module
 */

import type { TestResult } from "./read_output.ts";

/** A row's name, as `conformance()` of `tests/_harness` builds it. */
const NAME =
  /^conformance (?<area>[^:]+?)(?<daemon> by daemon)?: (?<row>.*?)(?: \(skipped: (?<reason>.*)\))?$/;

/** Reports whether a test is a conformance row: no step of one. */
export function isRow(name: string): boolean {
  return NAME.test(name) && !name.includes(" ... ");
}

/** The outcomes in a kernel. */
export interface KernelRows {
  readonly kernel: string;
  readonly rows: readonly TestResult[];
}

/** How a row ended that was run in a way, in a kernel. */
interface Entry {
  readonly area: string;
  readonly row: string;
  /** A column of the page. */
  readonly way: string;
  readonly outcome: string;
  readonly reason: string;
}

function listEntries({ kernel, rows }: KernelRows): Entry[] {
  return rows.flatMap(({ name, outcome }) => {
    const { area, daemon, row, reason = "" } = NAME.exec(name)?.groups ?? {};
    if (area === undefined || row === undefined) return [];
    const way = daemon === undefined ? "in process" : "by daemon";
    return [{ area, row, way: `${kernel}, ${way}`, outcome, reason }];
  });
}

/** Renders the page, as Markdown. */
export function formatRows(kernels: readonly KernelRows[]): string {
  const entries = kernels.flatMap(listEntries);
  const ways = [...new Set(entries.map(({ way }) => way))];
  const areas = Map.groupBy(entries, ({ area }) => area);
  const lines = [...areas].map(([area, own]) => {
    const rows = new Set(own.map(({ row }) => row)).size;
    const cells = ways.map((way) =>
      count(own.filter((one) => one.way === way))
    );
    return `| ${[area, rows, ...cells].join(" | ")} |`;
  });
  return [
    "# Conformance rows",
    "",
    "How many rows of `tests/conformance` passed in each kernel and way. A",
    "number after + failed, one in brackets was skipped.",
    "",
    `| ${["area", "rows", ...ways].join(" | ")} |`,
    `|${" --- |".repeat(ways.length + 2)}`,
    ...lines,
    "",
    ...list(
      "Failed",
      entries.filter(({ outcome }) =>
        outcome !== "ok" && outcome !== "ignored"
      ),
    ),
    ...list("Skipped", entries.filter(({ outcome }) => outcome === "ignored")),
  ].join("\n");
}

/** Renders counts of what passed, failed and was skipped. */
function count(entries: readonly Entry[]): string {
  const passed = entries.filter(({ outcome }) => outcome === "ok").length;
  const skipped = entries.filter(({ outcome }) => outcome === "ignored").length;
  const failed = entries.length - passed - skipped;
  return [
    passed > 0 && String(passed),
    failed > 0 && `+ ${failed}`,
    skipped > 0 && `(${skipped})`,
  ].filter(Boolean).join(" ");
}

/** Lists rows by the reason, then by the way. */
function list(title: string, entries: readonly Entry[]): string[] {
  if (entries.length === 0) return [];
  const groups = Map.groupBy(
    entries,
    ({ way, reason }) => reason === "" ? way : `${reason}: ${way}`,
  );
  const lines = [...groups].toSorted().flatMap(([group, own]) => [
    `- ${group}`,
    ...own.map(({ area, row }) => `  - ${area}: ${row}`),
  ]);
  return [`## ${title}`, "", ...lines, ""];
}
