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
   * How a narrow terminal shows its cells: cut at the end, or in the middle as long
   * as all rows remain distinct; wrapped to further lines; or on a separate line
   * below the row.
   */
  readonly narrow?: "cut" | "middle" | "wrap" | "below";
  /**
   * Other columns are dropped until a name that is cut in the middle has this many
   * characters; 24 if absent.
   */
  readonly fair?: number;
  /**
   * If set, a narrow terminal can drop the column; the lowest number is dropped
   * first. A column that identifies a row must not set it.
   */
  readonly dropped?: number;
  /** Highlights a cell. */
  readonly mark?: (
    row: Row,
    style: Style,
  ) => ((text: string) => string) | undefined;
}

/**
 * Formats rows under their headings, with two blanks between columns and no newline
 * at the end. On a narrow terminal, columns are dropped, wrapped and cut if they
 * permit it, and a last line names the columns that are dropped or cut in the middle.
 * If that is not enough, each row becomes a block with a line for each cell.
 */
export function formatTable<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string {
  const { width = Infinity } = style;
  const layout = fit(all, rows, width);
  if (layout === undefined) return formatBlocks(all, rows, style);
  const { columns, widths, below } = layout;
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
  const hidden = all
    .filter((column) => !columns.includes(column) && !below.includes(column))
    .map(({ heading }) => heading);
  const shortened = columns
    .filter(({ narrow, cell }, at) =>
      narrow === "middle" &&
      rows.some((row) => measure(show(cell(row))) > (widths[at] ?? 0))
    )
    .map(({ heading }) => heading);
  const hints = [
    ...hidden.length === 0
      ? []
      : [`Not shown at this width: ${hidden.join(", ")}`],
    ...shortened.length === 0 ? [] : [`Shortened: ${shortened.join(", ")}`],
  ];
  const hint = `${hints.join(". ")} (--wide shows all)`;
  return [
    ...format(({ heading }) => [heading, style.bold]),
    ...rows.flatMap((row) => [
      ...format((
        { cell, mark },
      ) => [show(cell(row)), mark?.(row, style) ?? same]),
      ...below.flatMap(({ cell, mark = () => undefined }) =>
        wrap(showControls(cell(row)), width - 2)
          .map((line) => `  ${(mark(row, style) ?? same)(line)}`)
      ),
    ]),
    ...hints.length === 0 ? [] : wrap(hint, Math.max(width, SHORTEST_HINT)),
  ].join("\n");
}

/** Formats each row as a block, with all cells complete. */
function formatBlocks<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string {
  const indent = Math.max(...all.map(({ heading }) => measure(heading))) + 2;
  const room = (style.width ?? Infinity) - indent;
  return rows.map((row) =>
    all.filter(({ cell }) => cell(row) !== "").flatMap((column) => {
      const { heading, cell, mark } = column;
      const paint = mark?.(row, style) ?? same;
      return wrap(showControls(cell(row)).trim(), room).map((line, index) =>
        index === 0
          ? style.bold(heading) + " ".repeat(indent - measure(heading)) +
            paint(line)
          : " ".repeat(indent) + paint(line)
      );
    }).join("\n")
  ).join("\n\n");
}

/** The flags of a command that lists things. */
export interface ListingFlags {
  readonly wide?: boolean | undefined;
  readonly output?: string | undefined;
}

/**
 * Formats the list of a command according to its flags: a table, with all columns if
 * `wide` is set, or only the names.
 *
 * @param nameOf Returns the row's name for other commands
 */
export function formatListing<Row>(
  { wide, output }: ListingFlags,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  nameOf: (row: Row) => string,
): (style: Style) => string {
  return (style) => {
    if (output === "name") {
      return [...new Set(rows.map(nameOf))].map(showControls).join("\n");
    }
    const { width: _, ...endless } = style;
    const isWide = wide || output === "wide";
    return formatTable(columns, rows, isWide ? endless : style);
  };
}

/** Breaks a cell's text into lines of a width. */
function breakCell<Row>(
  { narrow }: Column<Row>,
  text: string,
  width: number,
): string[] {
  if (measure(text) <= width) return [text];
  if (narrow === "cut") return [shorten(text, width)];
  if (narrow === "middle") return [shortenMiddle(text, width)];
  return narrow === "wrap" ? wrap(text, width) : [text];
}

/** Wraps a text at blanks and commas. A longer word gets a separate line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const piece of listPieces(text)) {
    if (measure((line + piece).trimEnd()) > width && line !== "") {
      lines.push(line.trimEnd());
      line = "";
    }
    line += piece;
  }
  return line.trim() === "" ? lines : [...lines, line.trimEnd()];
}

function listPieces(text: string): readonly string[] {
  return text.match(/[^\s,]*[\s,]+|[^\s,]+/g) ?? [];
}

/** Hints are not wrapped to less than this width. */
const SHORTEST_HINT = 40;

/** Prose is not wrapped to less than this width. */
const SHORTEST_PROSE = 20;

/** Cells are not cut below this width. */
const SHORTEST_CELL = 8;

/** Names are not cut below this width, even if other columns are dropped. */
const SHORTEST_NAME = 13;

/** Columns are dropped until names have this width. */
const FAIR_NAME = 24;

/** The widths of a column. */
interface Widths {
  /** The width without cut cells. */
  readonly whole: number;
  /** The width for which other columns are dropped. */
  readonly fair: number;
  /** The minimum width. */
  readonly least: number;
}

function measureColumn<Row>(
  { heading, cell, narrow, fair = FAIR_NAME }: Column<Row>,
  rows: readonly Row[],
): Widths {
  const cells = [heading, ...rows.map((row) => show(cell(row)))];
  const whole = Math.max(...cells.map(measure));
  if (narrow === "cut") {
    const least = Math.min(whole, SHORTEST_CELL);
    return { whole, fair: least, least };
  }
  if (narrow === "middle") {
    return {
      whole,
      fair: Math.min(whole, fair),
      least: Math.min(whole, SHORTEST_NAME),
    };
  }
  if (narrow !== "wrap") return { whole, fair: whole, least: whole };
  const pieces = cells.flatMap(listPieces).map((piece) => piece.trimEnd());
  const isProse = cells.some((text) => text.includes(" "));
  const least = Math.max(
    ...pieces.map(measure),
    isProse ? Math.min(whole, SHORTEST_PROSE) : 0,
  );
  return { whole, fair: least, least };
}

/** The position of each column. */
interface Layout<Row> {
  readonly columns: readonly Column<Row>[];
  readonly widths: readonly number[];
  /** Columns that are shown below each row. */
  readonly below: readonly Column<Row>[];
}

/**
 * Moves columns below the rows, drops others, and narrows the rest, the widest
 * first.
 *
 * @returns Undefined if that is not enough
 */
function fit<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
): Layout<Row> | undefined {
  const sizes = new Map(
    all.map((column) => [column, measureColumn(column, rows)]),
  );
  const sum = (columns: readonly Column<Row>[], key: keyof Widths): number =>
    columns.reduce((total, one) => total + (sizes.get(one)?.[key] ?? 0), 0) +
    2 * (columns.length - 1);
  const columns = [...all], below: Column<Row>[] = [];
  const movable = all.filter(({ narrow }) => narrow === "below");
  while (sum(columns, below.length === 0 ? "whole" : "least") > width) {
    const last = movable.pop();
    if (last === undefined) break;
    columns.splice(columns.indexOf(last), 1);
    below.unshift(last);
  }
  const inOrder = columns.filter(({ dropped }) => dropped !== undefined)
    .sort((left, right) => Number(left.dropped) - Number(right.dropped));
  for (const next of inOrder) {
    if (sum(columns, "fair") <= width) break;
    columns.splice(columns.indexOf(next), 1);
  }
  if (sum(columns, "least") > width && rows.length > 0) return undefined;
  const widths = columns.map((column) => sizes.get(column)?.whole ?? 0);
  let excess = sum(columns, "whole") - width;
  for (const floor of ["fair", "least"] as const) {
    for (; excess > 0; excess--) {
      const [widest] = columns
        .map((column, at) => ({ column, at, width: widths[at] ?? 0 }))
        .filter(({ column, width }) =>
          width > (sizes.get(column)?.[floor] ?? 0)
        )
        .sort((left, right) => right.width - left.width);
      if (widest === undefined) break;
      widths[widest.at] = widest.width - 1;
    }
  }
  const layout = { columns, widths, below };
  return areDistinct(layout, rows) ? layout : undefined;
}

/** Reports whether distinct rows remain distinct with their names cut. */
function areDistinct<Row>(
  { columns, widths }: Layout<Row>,
  rows: readonly Row[],
): boolean {
  const names = columns.map((column, at) => ({
    column,
    width: widths[at] ?? 0,
  }))
    .filter(({ column }) => column.dropped === undefined);
  const count = (
    cellOf: (row: Row, name: (typeof names)[number]) => string,
  ): number =>
    new Set(
      rows.map((row) => names.map((name) => cellOf(row, name)).join("\n")),
    ).size;
  return count((row, { column, width }) =>
    breakCell(column, show(column.cell(row)), width).join(" ")
  ) === count((row, { column }) => show(column.cell(row)));
}

/** Shortens a text to a number of characters. */
export function shorten(text: string, limit: number): string {
  const characters = [...text];
  return characters.length <= limit
    ? text
    : `${characters.slice(0, limit - 1).join("")}…`;
}

/** Shortens a name in its middle, because names often differ at their ends. */
function shortenMiddle(text: string, limit: number): string {
  const characters = [...text];
  if (characters.length <= limit) return text;
  const tail = Math.ceil((limit - 1) / 2);
  const head = characters.slice(0, limit - 1 - tail).join("");
  return `${head}…${characters.slice(-tail).join("")}`;
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
