/**
 * The page that a run makes of the conformance rows: in which ways and kernels
 * each was run, and what was skipped and why.
 *
 * @module
 */

import type { TestResult } from "./read_output.ts";

const SKIPPED = / \(skipped: (?<reason>.*)\)$/;

/** A row's name, as `conformance()` of `tests/_harness` builds it, without the reason of a skip. */
const ROW =
  /^conformance (?<area>[^:]+?)(?<way>(?: in a chain)?(?: by (?:daemon|process))?(?: rootless| with udev)?): (?<row>.*)$/;

/** The name of a test that runs a plugin beside the one of a Go release. */
const BESIDE =
  /^(?<row>(?<area>[\w-]+)(?: leaves|[:,]).*\bGo (?<peer>\d+(?:\.\d+)+)\b.*)$/;

/** Reports whether the page has a test: a row, or one beside a Go plugin, and no step of one. */
export function isRow(name: string): boolean {
  return find(name) !== undefined && !name.includes(" ... ");
}

/** The parts of a name. */
interface Found {
  readonly area: string;
  readonly row: string;
  readonly way: string;
}

function find(name: string): Found | undefined {
  const plain = name.replace(SKIPPED, "");
  const { area, row = "", way, peer } =
    (ROW.exec(plain) ?? BESIDE.exec(plain))?.groups ?? {};
  if (area === undefined) return undefined;
  if (peer !== undefined) return { area, row, way: `beside Go ${peer}` };
  const places = way?.trim().replace("chain by", "chain, by");
  return { area, row, way: places || "in process" };
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
    const found = find(name);
    if (found === undefined) return [];
    const { reason = "" } = SKIPPED.exec(name)?.groups ?? {};
    const way = `${kernel}, ${found.way}`;
    return [{ ...found, way, outcome, reason }];
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
    "How many rows of `tests/conformance` passed in each kernel and way, and how",
    "many tests beside the plugins of a Go release. A number after + failed, one",
    "in brackets was skipped.",
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
