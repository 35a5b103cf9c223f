/**
 * The tables of docs/performance.md: what the commands of a container cost beside few
 * and many others.
 *
 * @module
 */

import type { TracedCalls } from "../../tests/_harness/traced_calls.ts";

/** What a command has cost beside a number of others. */
export type CostOf = (command: string, others: number) => TracedCalls;

/** Counts and bytes that differ by less are the same: numbers get more digits. */
const SAME_CALLS = 8, SAME_BYTES = 400;

/** Formats 12345 as `12 345`. */
function formatCount(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(?:\d{3})+$)/g, " ");
}

function formatKb(bytes: number): string {
  const kb = bytes / 1000;
  return kb < 100 ? kb.toFixed(1) : formatCount(kb);
}

/** Formats a number, or what it grows from and to. */
function formatGrowing(
  values: readonly number[],
  same: number,
  format: (value: number) => string,
): string {
  const [least = 0, most = 0] = [Math.min(...values), Math.max(...values)];
  const first = format(values[0] ?? 0), last = format(values.at(-1) ?? 0);
  return most - least <= same ? last : `${first} to ${last}`;
}

/** How often a pipe is read depends on when its program writes. */
function countCalls({ calls, count, programs }: TracedCalls): number {
  return programs > 0 ? count - (calls["read"] ?? 0) : count;
}

/** Formats `95, 5.6`: calls and KB; and, as `+ 2, 31.0`, programs and what they read. */
function formatCosts(costs: readonly TracedCalls[]): string {
  const own = [
    formatGrowing(costs.map(countCalls), SAME_CALLS, formatCount),
    formatGrowing(costs.map(({ bytes }) => bytes), SAME_BYTES, formatKb),
  ].join(", ");
  const programs = costs.map(({ programs }) => programs);
  if (Math.max(...programs) === 0) return own;
  const read = costs.map(({ programBytes }) => programBytes);
  return `${own} + ${formatGrowing(programs, 0, formatCount)}, ${
    formatGrowing(read, SAME_BYTES, formatKb)
  }`;
}

/** Divides a cost by a number of containers. */
function formatEach(cost: TracedCalls, containers: number): string {
  const { bytes, programs, programBytes } = cost;
  const own = `${formatCount(countCalls(cost) / containers)}, ${
    formatKb(bytes / containers)
  }`;
  return programs === 0
    ? own
    : `${own} + ${formatCount(programs)} for all, ${
      formatKb(programBytes / containers)
    }`;
}

/** What a table has. */
export interface Columns {
  /** The head of the column of names. */
  readonly title: string;
  /** All names of rows, in order; others are removed. */
  readonly names: readonly string[];
  /** Numbers of others, for GC. */
  readonly levels: readonly number[];
}

/** Lists the heads of the columns. */
function headOf({ title, levels }: Columns): string[] {
  const gc = levels.map((level, at) =>
    `${at === 0 ? "GC with" : "with"} ${formatCount(level)}`
  );
  const each = `GC of ${formatCount(levels.at(-1) ?? 0)}, for each`;
  return [title, "ADD", "CHECK", "DEL", ...gc, each];
}

/**
 * Formats the row of a network.
 *
 * @param measured Numbers of others
 * @param levels Those of the columns; where fewer were measured, the last ones say so
 */
export function formatRow(
  name: string,
  costOf: CostOf,
  measured: readonly number[],
  levels: readonly number[],
): string {
  const cells = ["ADD", "CHECK", "DEL"].map((command) =>
    formatCosts(measured.map((others) => costOf(command, others)))
  );
  const gc = levels.map((level, at) => {
    const others = measured[at];
    if (others === undefined) return "";
    const cost = formatCosts([costOf("GC", others)]);
    return others === level ? cost : `${cost} (${formatCount(others)})`;
  });
  const most = measured.at(-1) ?? 1;
  const each = formatEach(costOf("GC of all", most), most);
  const last = most === levels.at(-1) ? each : `${each} (${formatCount(most)})`;
  return `| ${[name, ...cells, ...gc, last].join(" | ")} |`;
}

function nameOf(row: string): string {
  return row.split("|")[1]?.trim() ?? "";
}

/**
 * Replaces and adds rows in the table of a page that follows a comment.
 *
 * @param mark The comment's text
 * @throws {Error} If the page has no such table
 */
export function replaceRows(
  page: string,
  mark: string,
  rows: readonly string[],
  columns: Columns,
): string {
  const begin = `<!-- ${mark} -->\n`, end = "\n<!-- end -->";
  const [before = "", rest] = page.split(begin);
  const [old, ...after] = rest?.split(end) ?? [];
  if (old === undefined || after.length === 0) {
    throw new Error(`Cannot write the counts: no page has "${mark}"`);
  }
  const all = new Map(
    [...old.split("\n"), ...rows].map((row) => [nameOf(row), row]),
  );
  const head = headOf(columns);
  const rule = head.map((_, at) => at === 0 ? "---" : "--:");
  const table = [
    ...[head, rule].map((cells) => `| ${cells.join(" | ")} |`),
    ...columns.names.flatMap((name) => all.get(name) ?? []),
  ];
  return `${before}${begin}\n${table.join("\n")}\n${end}${after.join(end)}`;
}
