/**
 * The few shapes that the charts are drawn of.
 *
 * @module
 */

import {
  type Frame,
  picture as format,
  textAt,
} from "../../../cli/program/svg.ts";

export {
  type Attributes,
  CHARACTER_WIDTH,
  chooseTicks,
  element,
  escapeXml,
  line,
  textAt,
} from "../../../cli/program/svg.ts";

/** Colours that follow the viewer's: light, or dark. */
const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #57606a; }
  .grid { stroke: #d8dee4; } .spread { stroke: #1f2328; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .grid { stroke: #30363d; } .spread { stroke: #e6edf3; }
  }
`;

/** Formats a whole picture, in the viewer's light or dark colours. */
export function picture(
  frame: Omit<Frame, "style">,
  shapes: readonly string[],
): string {
  return format({ ...frame, style: STYLE, font: "monospace" }, shapes);
}

/** What {@linkcode drawHead} takes at the top. */
export const HEAD_HEIGHT = 84;

/** Draws a picture's title, with up to three lines below it. */
export function drawHead(title: string, lines: readonly string[]): string[] {
  return [
    textAt([12, 18], title, { "font-weight": "bold" }),
    ...lines.map((text, at) =>
      textAt([12, 36 + 16 * at], text, { class: "dim" })
    ),
  ];
}

const COLORS = [
  "#1f77b4",
  "#ff7f0e",
  "#2ca02c",
  "#9467bd",
  "#8c564b",
  "#17becf",
  "#7f7f7f",
] as const;

/** Gives each name a colour, the same in every picture with the same names. */
export function chooseColors(
  names: readonly string[],
): ReadonlyMap<string, string> {
  const distinct = [...new Set(names)];
  return new Map(
    distinct.map((name, at) => [name, COLORS[at % COLORS.length] ?? "black"]),
  );
}
