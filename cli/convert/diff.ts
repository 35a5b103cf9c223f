/**
 * Differences between two texts, line by line.
 *
 * @module
 */

import { showControls, type Style } from "../../base/command_line/style.ts";

/** A line of a difference. */
export interface DiffLine {
  /** Whether the line is in both texts, only in the old text or only in the new text. */
  readonly mark: " " | "-" | "+";
  readonly line: string;
}

/** Compares texts of some hundred lines: a longest common subsequence. */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = before.replace(/\n$/, "").split("\n");
  const now = after.replace(/\n$/, "").split("\n");
  // lengths[i][j]: common lines of old from i and now from j.
  const lengths = Array.from(
    { length: old.length + 1 },
    () => new Uint32Array(now.length + 1),
  );
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--) {
    const row = lengths[i];
    for (let j = now.length - 1; j >= 0 && row !== undefined; j--) {
      row[j] = old[i] === now[j]
        ? at(i + 1, j + 1) + 1
        : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0, j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ mark: " ", line: old[i++] ?? "" });
      j++;
    } else if (
      j >= now.length || i < old.length && at(i + 1, j) >= at(i, j + 1)
    ) {
      lines.push({ mark: "-", line: old[i++] ?? "" });
    } else {
      lines.push({ mark: "+", line: now[j++] ?? "" });
    }
  }
  return lines;
}

/** Lines of context around a change. */
const CONTEXT = 3;

/** Formats the changes with some lines around them; "" without changes. */
export function formatDiff(
  file: string,
  lines: readonly DiffLine[],
  style: Style,
): string {
  const isNear = (index: number): boolean =>
    lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1)
      .some(({ mark }) => mark !== " ");
  if (!lines.some(({ mark }) => mark !== " ")) return "";
  const shown = lines.flatMap(({ mark, line }, index) => {
    if (!isNear(index)) return isNear(index - 1) ? ["…"] : [];
    const text = showControls(mark + line);
    return [
      mark === "-" ? style.red(text) : mark === "+" ? style.green(text) : text,
    ];
  });
  return [style.bold(showControls(file)), ...shown].join("\n");
}
