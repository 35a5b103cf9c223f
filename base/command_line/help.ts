/**
 * Help, generated from the table of commands.
 *
 * @module
 */

import {
  type CommandRow,
  type Flag,
  flagsOf,
  type Program,
} from "./command.ts";
import { formatArguments } from "./parse.ts";
import type { Style } from "./style.ts";

/** The width of wrapped paragraphs, in characters. */
const WIDTH = 78;

/**
 * Formats the help of a program or of a group of commands.
 *
 * @param group First word of the commands in the group; all commands if absent
 */
export function formatProgramHelp(
  { name, about, rows }: Program,
  style: Style,
  group?: string,
): string {
  const command = group === undefined ? name : `${name} ${group}`;
  const prefix = group === undefined ? "" : `${group} `;
  const shown = rows
    .filter((row) => !row.isHidden && row.name.startsWith(prefix))
    .map((row) => [row.name.slice(prefix.length), row.summary] as const);
  return [
    ...group === undefined ? [wrapIndented(about)] : [],
    `${style.bold("Usage:")} ${command} COMMAND [ARGUMENTS] [FLAGS]`,
    formatSection("Commands", style, shown),
    `See ${command} COMMAND --help for its arguments, flags and examples.`,
  ].join("\n\n");
}

/** Adds the texts that a program loads only for help. */
export async function withTexts(
  { texts }: Program,
  row: CommandRow,
): Promise<CommandRow> {
  return { ...row, ...(await texts?.())?.[row.name] };
}

/** Formats the help of a command. */
export function formatCommandHelp(
  program: string,
  row: CommandRow,
  style: Style,
): string {
  const { summary, about = [], args = [], examples = {} } = row;
  const end = [formatArguments(row), "[FLAGS]"];
  if (row.isWrapper) end.reverse();
  const usage = [program, row.name, ...end]
    .filter((word) => word !== "").join(" ");
  const shown = args.filter(({ isHidden }) => !isHidden);
  return [
    wrapIndented(`${summary}.`),
    ...about.map((paragraph) => wrapIndented(paragraph)),
    `${style.bold("Usage:")} ${usage}`,
    formatSection(
      "Arguments",
      style,
      shown.map(({ name, summary }) => [name, summary]),
    ),
    formatSection(
      "Flags",
      style,
      Object.entries(flagsOf(row)).map(describeFlag),
    ),
    formatSection("Examples", style, Object.entries(examples)),
  ].filter((part) => part !== "").join("\n\n");
}

function describeFlag([name, flag]: [string, Flag]): [string, string] {
  const short = flag.short === undefined ? "    " : `-${flag.short[0]}, `;
  const value = flag.value === undefined ? "" : ` ${flag.value}`;
  const fallback = flag.default ? ` (default ${flag.default})` : "";
  return [`${short}--${name}${value}`, flag.summary + fallback];
}

/** Formats pairs in two columns under a heading; "" without pairs. */
export function formatSection(
  heading: string,
  style: Style,
  pairs: readonly (readonly [left: string, right: string])[],
): string {
  if (pairs.length === 0) return "";
  const width = Math.max(...pairs.map(([left]) => left.length));
  // If the left column is wide, the right column goes below it.
  const isNarrow = width <= 40;
  const lines = pairs.flatMap(([left, right]) => {
    const indent = isNarrow ? width + 4 : 6;
    const text = wrapIndented(right, indent);
    return isNarrow
      ? [`  ${left.padEnd(width)}  ${text.trimStart()}`]
      : [`  ${left}`, text];
  });
  return [style.bold(`${heading}:`), ...lines].join("\n");
}

/** Wraps a text into indented lines. */
export function wrapIndented(text: string, indent = 0): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    const fits = line !== undefined &&
      line.length + word.length < WIDTH - indent;
    if (fits) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => " ".repeat(indent) + line).join("\n");
}
