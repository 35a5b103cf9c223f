/**
 * Reports on executables, for people.
 *
 * @module
 */

import { count, type Report } from "../../testing/conform/report.ts";
import type { Row } from "../../testing/conform/run.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { formatTable, wrap } from "../../base/command_line/table.ts";

const WIDTH = 80;
const WORDS = { kept: "ok", broken: "broken", untried: "-" } as const;

/** How much is shown. */
export interface Detail {
  /** Whether all that shows a defect is printed, or the last call only. */
  readonly isFull: boolean;
}

/** Formats reports: a table of requirements, the failures, and what skipped requirements need. */
export function formatReports(
  reports: readonly Report[],
  style: Style,
  detail: Detail,
): string {
  const sized = { ...style, width: Math.min(style.width ?? WIDTH, WIDTH) };
  return [
    ...reports.map((report) => formatReport(report, sized, detail)),
    formatVerdict(reports, style),
  ].join("\n\n");
}

function formatReport(report: Report, style: Style, detail: Detail): string {
  const { name, executable, kind, versions, rows, addFails } = report;
  const range = versions.length > 1
    ? `${versions.at(0)} to ${versions.at(-1)}`
    : versions.join();
  const title = `${showControls(name)} (${kind}, ${range || "no versions"})`;
  const columns = [
    {
      heading: "RESULT",
      cell: ({ outcome }: Row) => WORDS[outcome],
      mark: ({ outcome, strength }: Row, { red, yellow, green }: Style) =>
        outcome === "kept"
          ? green
          : outcome === "broken"
          ? strength === "MUST" ? red : yellow
          : undefined,
    },
    { heading: "STRENGTH", cell: ({ strength }: Row) => strength },
    {
      heading: "REQUIREMENT (SECTION OF THE SPECIFICATION; NAME)",
      cell: ({ title, section, id }: Row) => `${title} (${section}; ${id})`,
      narrow: "wrap" as const,
    },
  ];
  const broken = rows.filter(({ outcome }) => outcome === "broken");
  return [
    style.bold(title),
    ...executable.endsWith(`/${name}`) ? [] : [showControls(executable)],
    ...addFails === null
      ? []
      : lines(`ADD could not be tested: ${addFails}`, style, ""),
    formatTable(columns, rows, style),
    ...broken.flatMap((row) => formatBroken(row, style, detail)),
    ...formatUntried(report, style),
    ...formatNeeds(report, style),
  ].join("\n");
}

function formatBroken(row: Row, style: Style, { isFull }: Detail): string[] {
  const { id, why = "", shows = [] } = row;
  const isCall = (line: string): boolean => /^(\w+=\$\()?CNI_/.test(line);
  const commands = isFull ? shows : shows.filter(isCall).slice(-1);
  return [
    "",
    style.bold(`${id}: `) + lines(why, style, "").join("\n"),
    ...commands.map((line) => `  $ ${showControls(line)}`),
  ];
}

/** Formats why requirements were not tried. */
function formatUntried({ rows, addFails }: Report, style: Style): string[] {
  const others = rows.filter(({ outcome, why }) =>
    outcome === "untried" && why !== addFails
  );
  if (others.length === 0) return [];
  const reasons = Object.groupBy(others, ({ why = "" }) => why);
  return [
    "",
    style.bold("Not tried:"),
    ...Object.entries(reasons).flatMap(([why, rows = []]) =>
      lines(`${rows.map(({ id }) => id).join(", ")}: ${why}`, style)
    ),
  ];
}

function formatNeeds({ needs }: Report, style: Style): string[] {
  if (needs === null) return [];
  const rows: [string, readonly string[] | null][] = [
    ["runs", needs.programs],
    ["capabilities", needs.capabilities],
    ["writes sysctls", needs.sysctls],
    ["reads", needs.reads],
    ["writes", needs.writes],
    ["connects to", needs.sockets],
    ["remains after DEL", needs.stays],
  ];
  return [
    "",
    style.bold("Needs and effects:"),
    ...rows.filter(([, values]) => values?.length !== 0).flatMap((
      [name, values],
    ) =>
      lines(
        `${name}: ${values?.join(", ") ?? "unknown (needs setpriv)"}`,
        style,
      )
    ),
  ];
}

function lines(
  text: string,
  { width = WIDTH }: Style,
  indent = "  ",
): string[] {
  return wrap(showControls(text), width - indent.length)
    .map((line) => indent + line);
}

function formatVerdict(reports: readonly Report[], style: Style): string {
  if (reports.length === 0) return "No plugin was tested";
  return reports.map(({ name, rows }) => {
    const { kept, broken, untried } = count(rows);
    const text = `${name}: ${kept} kept; broken: ${broken.MUST} MUST, ` +
      `${broken.SHOULD} SHOULD, ${broken.PRACTICE} practice; ` +
      `${untried} not tested`;
    return broken.MUST > 0 ? style.red(text) : style.green(text);
  }).join("\n");
}
