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
  /** Whether a narrow terminal may cut its cells. */
  readonly isCut?: boolean;
  /** If set, a narrow terminal may lack the column; the lowest number goes first. */
  readonly dropped?: number;
  /** Highlights a cell. */
  readonly mark?: (
    row: Row,
    style: Style,
  ) => ((text: string) => string) | undefined;
}

/**
 * Formats rows under their headings, one line each, with two blanks between
 * columns and no newline at the end. On a narrow terminal, columns are dropped
 * and cut as far as they allow.
 */
export function formatTable<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string {
  const columns = fit(all, rows, style.width);
  const widths = measureColumns(columns, rows);
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

/** Cells are not cut below this width. */
const SHORTEST_CELL = 12;

function measureColumns<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): number[] {
  return columns.map(({ heading, cell }) =>
    Math.max(...[heading, ...rows.map((row) => show(cell(row)))].map(measure))
  );
}

/** Drops and cuts columns until they fit, as far as possible. */
function fit<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width = Infinity,
): readonly Column<Row>[] {
  const widths = measureColumns(columns, rows);
  const excess = sum(widths) + 2 * (columns.length - 1) - width;
  if (excess <= 0) return columns;
  const [first] = columns.filter(({ dropped }) => dropped !== undefined)
    .sort((left, right) => Number(left.dropped) - Number(right.dropped));
  if (first !== undefined) {
    return fit(columns.filter((column) => column !== first), rows, width);
  }
  const [widest] = columns
    .map((column, at) => ({ column, width: widths[at] ?? 0 }))
    .filter(({ column, width }) => column.isCut && width > SHORTEST_CELL)
    .sort((left, right) => right.width - left.width);
  if (widest === undefined) return columns;
  const limit = Math.max(SHORTEST_CELL, widest.width - Math.ceil(excess));
  const { cell } = widest.column;
  const cut = {
    ...widest.column,
    isCut: false,
    cell: (row: Row): string => shorten(show(cell(row)), limit),
  };
  const cutColumns = columns.map((column) =>
    column === widest.column ? cut : column
  );
  return fit(cutColumns, rows, width);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Shortens a text to a number of characters. */
export function shorten(text: string, limit: number): string {
  const characters = [...text];
  return characters.length <= limit
    ? text
    : `${characters.slice(0, limit - 1).join("")}…`;
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
