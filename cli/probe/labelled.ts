/**
 * The labelled lines below a finding or a cause: `    fix:  command`.
 *
 * @module
 */

import { showControls, type Style } from "../../base/command_line/style.ts";
import { wrap } from "../../base/command_line/table.ts";

/** A terminal that is narrower breaks words. */
export const LEAST_ROOM = 20;
/** Blanks before a label, and its width. */
export const INDENT = 4, LABEL = 6;

/** Puts a text behind its heading; further lines begin below the text. */
export function hang(
  heading: string,
  indent: number,
  text: string,
  { width = Infinity }: Style,
): string {
  const room = Math.max(width - indent, LEAST_ROOM);
  return heading + wrap(showControls(text), room).join(
    `\n${" ".repeat(indent)}`,
  );
}

/** Formats a labelled text; none without a text. */
export function labelled(
  label: string,
  text: string | null | undefined,
  style: Style,
): string[] {
  const heading = " ".repeat(INDENT) + label.padEnd(LABEL);
  return text === null || text === undefined
    ? []
    : [hang(heading, INDENT + LABEL, text, style)];
}

/** Formats a labelled command, which is pasted and so stays in one line. */
export function labelledCommand(
  label: string,
  text: string | null | undefined,
): string[] {
  const heading = " ".repeat(INDENT) + label.padEnd(LABEL);
  return text === null || text === undefined
    ? []
    : [heading + showControls(text)];
}
