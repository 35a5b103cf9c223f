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
  /**
   * What a narrow terminal does to its cells. Wrapped cells continue on further
   * lines, so what identifies a row stays complete.
   */
  readonly narrow?: "cut" | "wrap";
  /** If set, a narrow terminal may lack the column; the lowest number goes first. */
  readonly dropped?: number;
  /** Highlights a cell. */
  readonly mark?: (
    row: Row,
    style: Style,
  ) => ((text: string) => string) | undefined;
}

/**
 * Formats rows under their headings, with two blanks between columns and no
 * newline at the end. On a narrow terminal, columns are dropped, wrapped and cut
 * as far as they allow; a last line names those that are dropped.
 */
export function formatTable<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string {
  const { columns, widths } = fit(all, rows, style.width);
  const format = (
    cellOf: (column: Column<Row>) => [string, Mark],
  ): string[] => {
    const cells = columns.map((column, at) => {
      const [text, mark] = cellOf(column);
      return { lines: breakCell(column, text, widths[at] ?? 0), mark };
    });
    const height = Math.max(...cells.map(({ lines }) => lines.length));
    return Array.from(
      { length: height },
      (_, line) =>
        cells.map(({ lines, mark }, at) => {
          const text = lines[line] ?? "";
          const isLast = at === cells.length - 1;
          const gap = isLast ? 0 : (widths[at] ?? 0) - measure(text) + 2;
          return mark(text) + " ".repeat(Math.max(gap, 0));
        }).join("").trimEnd(),
    );
  };
  const hidden = all.filter((column) => !columns.includes(column))
    .map(({ heading }) => heading);
  return [
    ...format(({ heading }) => [heading, style.bold]),
    ...rows.flatMap((row) =>
      format(({ cell, mark }) => [show(cell(row)), mark?.(row, style) ?? same])
    ),
    ...hidden.length === 0 ? [] : wrap(
      `Not shown at this width: ${hidden.join(", ")} (--wide shows all)`,
      Math.max(style.width ?? Infinity, SHORTEST_HINT),
    ),
  ].join("\n");
}

/** Breaks a cell's text into lines of a width. */
function breakCell<Row>(
  { narrow }: Column<Row>,
  text: string,
  width: number,
): string[] {
  if (measure(text) <= width) return [text];
  if (narrow === "cut") return [shorten(text, width)];
  return narrow === "wrap" ? wrap(text, width) : [text];
}

/**
 * Wraps a text: behind blanks, commas, slashes and dashes, and within a word only
 * if it is longer than a line.
 */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const piece of text.match(/[^\s,/-]*[\s,/-]+|[^\s,/-]+/g) ?? []) {
    if (measure((line + piece).trimEnd()) > width && line !== "") {
      lines.push(line.trimEnd());
      line = "";
    }
    const characters = [...line + piece];
    while (measure(characters.join("").trimEnd()) > width) {
      lines.push(characters.splice(0, width).join(""));
    }
    line = characters.join("");
  }
  return line.trim() === "" ? lines : [...lines, line.trimEnd()];
}

/** The last line is not wrapped below this width. */
const SHORTEST_HINT = 40;

/** Cells are neither cut nor wrapped below this width. */
const SHORTEST_CELL = 8;

function measureColumns<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): number[] {
  return columns.map(({ heading, cell }) =>
    Math.max(...[heading, ...rows.map((row) => show(cell(row)))].map(measure))
  );
}

/** Drops columns until the rest fit, or else narrows them, the widest first. */
function fit<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  width = Infinity,
): { readonly columns: readonly Column<Row>[]; readonly widths: number[] } {
  const columns = [...all];
  const inOrder = columns.filter(({ dropped }) => dropped !== undefined)
    .sort((left, right) => Number(left.dropped) - Number(right.dropped));
  const measureExcess = (widths: readonly number[]): number =>
    sum(widths) + 2 * (columns.length - 1) - width;
  let widths = measureColumns(columns, rows);
  for (const next of inOrder) {
    if (measureExcess(widths) <= 0) break;
    columns.splice(columns.indexOf(next), 1);
    widths = measureColumns(columns, rows);
  }
  for (let excess = measureExcess(widths); excess > 0; excess--) {
    const [widest] = columns
      .map(({ narrow }, at) => ({ narrow, at, width: widths[at] ?? 0 }))
      .filter(({ narrow, width }) => narrow && width > SHORTEST_CELL)
      .sort((left, right) => right.width - left.width);
    if (widest === undefined) break;
    widths[widest.at] = widest.width - 1;
  }
  return { columns, widths };
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
