/**
 * Tables for people.
 *
 * @module
 */

import { showControls, type Style } from "./style.ts";

/** A column: its heading, content and highlighting. */
export interface Column<Row> {
  readonly heading: string;
  /** Returns a cell's text; "" is shown as a dash. */
  readonly cell: (row: Row) => string;
  /** Highlights a cell. */
  readonly mark?: (
    row: Row,
    style: Style,
  ) => ((text: string) => string) | undefined;
}

/**
 * Formats rows under their headings, one line each, with two blanks between
 * columns and no newline at the end.
 */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string {
  const widths = columns.map(({ heading, cell }) =>
    Math.max(...[heading, ...rows.map((row) => show(cell(row)))].map(measure))
  );
  const line = (format: (column: Column<Row>) => [string, Mark]): string =>
    columns.map((column, at) => {
      const [text, mark] = format(column);
      const isLast = at === columns.length - 1;
      const gap = isLast ? 0 : (widths[at] ?? 0) - measure(text) + 2;
      return mark(text) + " ".repeat(gap);
    }).join("");
  return [
    line(({ heading }) => [heading, style.bold]),
    ...rows.map((row) =>
      line(({ cell, mark }) => [show(cell(row)), mark?.(row, style) ?? same])
    ),
  ].join("\n");
}

type Mark = (text: string) => string;

function same(text: string): string {
  return text;
}

function show(text: string): string {
  return text === "" ? "-" : showControls(text);
}

/** Counts characters, not UTF-16 code units. */
function measure(text: string): number {
  return [...text].length;
}
