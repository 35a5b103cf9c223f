/**
 * The results as tables, for terminals and in Markdown.
 *
 * @module
 */

import type { ChainName } from "./chain.ts";
import type { Machine } from "./machine.ts";
import { explainChain } from "./plan.ts";
import { groupByCell, type Report } from "./report.ts";
import type { Spread } from "./statistics.ts";
import type { Row } from "./summary.ts";

/** A column: its heading, alignment and text ("" if empty). */
interface Column {
  readonly heading: string;
  readonly isNumber: boolean;
  readonly cell: (row: Row) => string;
}

function text(heading: string, cell: Column["cell"]): Column {
  return { heading, isNumber: false, cell };
}

function number(
  heading: string,
  format: (value: number) => string,
  find: (row: Row) => number | undefined,
): Column {
  const cell: Column["cell"] = (row) => {
    const value = find(row);
    return value === undefined ? "" : format(value);
  };
  return { heading, isNumber: true, cell };
}

/** Chooses the columns in which there is anything. */
function chooseColumns(rows: readonly Row[]): Column[] {
  const [beside] = rows.flatMap(({ ratio }) => ratio?.to ?? []);
  const columns = [
    text("step", ({ step }) => step),
    text("who", ({ who }) => who),
    number("wall ms", formatMs, ({ wallMs }) => wallMs.median),
    text("quartiles", ({ wallMs }) => formatQuartiles(wallMs, formatMs)),
    number("CPU ms", formatMs, ({ cpuMs }) => cpuMs.median),
    number("per second", formatRate, ({ perSecond }) => perSecond),
    number(`wall/${beside}`, formatRatio, ({ ratio }) => ratio?.wallMs.median),
    text(
      "quartiles",
      ({ ratio }) =>
        ratio === undefined ? "" : formatQuartiles(ratio.wallMs, formatRatio),
    ),
    number(`CPU/${beside}`, formatRatio, ({ ratio }) => ratio?.cpuMs.median),
    number("peak MiB", formatMib, ({ peakKib }) => peakKib),
    number("execs", String, ({ execs }) => execs),
    number("syscalls", String, ({ syscalls }) => syscalls),
  ];
  return columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
}

/** Formats milliseconds, to three digits or so. */
export function formatMs(value: number): string {
  return value.toFixed(value < 10 ? 2 : 1);
}

function formatRatio(value: number): string {
  return value.toFixed(2);
}

function formatRate(value: number): string {
  return value.toFixed(1);
}

function formatMib(kib: number): string {
  return (kib / 1024).toFixed(0);
}

function formatQuartiles(
  { q1, q3 }: Spread,
  format: (value: number) => string,
): string {
  return `${format(q1)}-${format(q3)}`;
}

/** Formats a table for a terminal, without a newline at its end. */
export function formatTable(rows: readonly Row[]): string {
  const columns = chooseColumns(rows).map(({ heading, isNumber, cell }) => {
    const texts = [heading, ...rows.map(cell)];
    const width = Math.max(...texts.map(({ length }) => length));
    return texts.map((text) =>
      isNumber ? text.padStart(width) : text.padEnd(width)
    );
  });
  return Array.from(
    { length: rows.length + 1 },
    (_, line) => columns.map((texts) => texts[line]).join("  ").trimEnd(),
  ).join("\n");
}

/** Formats a table in Markdown, without a newline at its end. */
function formatMarkdownTable(rows: readonly Row[]): string {
  const columns = chooseColumns(rows);
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(columns.map(({ heading }) => heading)),
    line(columns.map(({ isNumber }) => isNumber ? "---:" : "---")),
    ...rows.map((row) => line(columns.map(({ cell }) => cell(row)))),
  ].join("\n");
}

/** Describes a machine in lines. */
export function describeLines(machine: Machine): string[] {
  const { date, kernel, architecture, cpu, cpus, memoryMib } = machine;
  const versions = Object.entries(machine.versions)
    .map(([who, version]) => `${who}: ${version}`);
  return [
    `${date}, Linux ${kernel} ${architecture}`,
    `${cpus} processors (${cpu}), ${memoryMib} MiB, load ${
      machine.load.toFixed(1)
    }`,
    [...versions, `deno: ${machine.deno}`].join(", "),
  ];
}

/** Names a cell, with what its chain consists of. */
function explainCell(cell: string, [row]: readonly Row[]): string {
  const { chain } = row ?? {};
  return chain === undefined
    ? cell
    : cell.replace(chain, explainChain(chain as ChainName));
}

/** Formats the results for a terminal, without a newline at their end. */
export function formatReport({ machine, rows, notes }: Report): string {
  const tables = groupByCell(rows).map(([cell, rows]) =>
    `${explainCell(cell, rows)}\n${formatTable(rows).replace(/^/gm, "  ")}`
  );
  const blocks = [describeLines(machine).join("\n"), ...tables];
  return [...blocks, notes.join("\n")].join("\n\n").trimEnd();
}

/** Formats the results as a Markdown document. */
export function formatMarkdown(
  { machine, rows, notes, growth }: Report,
): string {
  const tables = groupByCell(rows).map(([cell, rows]) =>
    `## ${explainCell(cell, rows)}\n\n${formatMarkdownTable(rows)}`
  );
  const list = [...describeLines(machine), ...notes]
    .map((line) => `- ${line}`).join("\n");
  const title = growth
    ? "# What containers cost when there are many"
    : "# What containers cost";
  return [title, list, ...tables].join("\n\n") + "\n";
}
