/**
 * Counts covered lines by directory and file, from an LCOV report.
 *
 * @module
 */

/** Lines of code, and how many of them ran. */
interface Lines {
  readonly covered: number;
  readonly total: number;
}

/** A file of the report, by its path from the project's root. */
export interface FileLines extends Lines {
  readonly path: string;
  /** Lines that never ran, counted from 1, in order. */
  readonly missed: readonly number[];
}

/**
 * Reads an LCOV report.
 *
 * Source: man 1 geninfo, "TRACEFILE FORMAT".
 *
 * @param root The project's directory, with a slash at the end
 */
export function parseLcov(text: string, root: string): FileLines[] {
  return text.split("end_of_record").flatMap((record) => {
    const source = /^SF:(.*)$/m.exec(record)?.[1];
    if (source === undefined) return [];
    const counts = [...record.matchAll(/^DA:(\d+),(\d+)/gm)];
    const missed = counts.filter(([, , count]) => count === "0")
      .map(([, line]) => Number(line));
    const total = counts.length;
    const path = source.replace(root, "");
    return [{ path, missed, total, covered: total - missed.length }];
  });
}

/** Adds up the files in a directory. */
export function sumLines(
  files: readonly FileLines[],
  directory: string,
): Lines {
  const inside = files.filter(({ path }) => path.startsWith(`${directory}/`));
  return {
    covered: inside.reduce((sum, { covered }) => sum + covered, 0),
    total: inside.reduce((sum, { total }) => sum + total, 0),
  };
}

/** Returns 0 to 100; 0 without lines, since nothing was shown. */
export function percent({ covered, total }: Lines): number {
  return total === 0 ? 0 : 100 * covered / total;
}

/** Renders a row of the table: percent, lines, and what they are the lines of. */
export function formatLines(name: string, lines: Lines): string {
  // Rounded down: 89.96 % is not 90 %.
  const share = (Math.floor(percent(lines) * 10) / 10).toFixed(1).padStart(5);
  const counts = `${lines.covered}/${lines.total}`.padStart(11);
  return `${share} % ${counts}  ${name}`;
}

/** Renders line numbers as ranges: `3-5 9`. */
export function formatRanges(numbers: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const number of numbers) {
    const range = ranges.at(-1);
    if (range !== undefined && number === range.last + 1) range.last = number;
    else ranges.push({ first: number, last: number });
  }
  return ranges.map(({ first, last }) =>
    first === last ? `${first}` : `${first}-${last}`
  ).join(" ");
}
