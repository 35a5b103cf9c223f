/**
 * The chart of a run: times as bars, those of one step beside each other.
 *
 * @module
 */

import {
  CHARACTER_WIDTH,
  chooseTicks,
  element,
  line,
  picture,
  textAt,
} from "../../../base/command_line/svg.ts";
import { formatMs } from "./report.ts";
import type { Row, Spread } from "./summary.ts";

/** Colours that follow the viewer's: light, or dark. */
export const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #57606a; }
  .grid { stroke: #d8dee4; } .spread { stroke: #1f2328; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .grid { stroke: #30363d; } .spread { stroke: #e6edf3; }
  }
`;

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

const MARGIN = 12;
const BAR = 14, GAP = 10, PLOT = 480, AXIS = 44;

/** Bars of one kind, on one scale. */
interface Section {
  readonly heading: string;
  readonly isMember: (row: Row) => boolean;
  /** The length of a bar, and its spread. */
  readonly measure: (row: Row) => Spread;
}

const SECTIONS: readonly Section[] = [
  {
    heading: "One at a time: wall time, ms",
    isMember: ({ perSecond }) => perSecond === undefined,
    measure: ({ wallMs }) => wallMs,
  },
  {
    heading: "Several at once: attachments per second",
    isMember: ({ perSecond }) => perSecond !== undefined,
    measure: ({ wallMs, parallel = 1 }) => {
      const perSecond = (ms: number): number => 1000 * parallel / ms;
      // The quickest round is the one with the most in a second.
      return {
        median: perSecond(wallMs.median),
        q1: perSecond(wallMs.q3),
        q3: perSecond(wallMs.q1),
      };
    },
  },
];

/** Where the bars begin, what they are painted with, and what they are called. */
interface BarFrame {
  readonly left: number;
  readonly labelOf: (row: Row) => string;
  readonly colors: ReadonlyMap<string, string>;
}

/** Something drawn, and where it ends. */
interface Drawn {
  readonly shapes: readonly string[];
  readonly bottom: number;
}

/**
 * Draws medians as bars, and quartiles as lines over their ends.
 *
 * @param subtitle Where it was measured
 */
export function drawBars(
  rows: readonly Row[],
  subtitle: readonly string[],
): string {
  const isEmpty = rows.every(({ containers }) => containers === 0);
  const where = isEmpty ? " on an empty node" : "";
  const title = `What a step takes${where} (median; line: quartiles)`;
  const labelOf = ({ cell, step }: Row): string =>
    `${isEmpty ? cell.replace(", 0 containers", "") : cell}: ${step}`;
  const left = MARGIN * 2 + measureWidest(rows.map(labelOf));
  const colors = chooseColors(rows.map(({ who }) => who));
  const bars = { left, colors, labelOf };
  let bottom = HEAD_HEIGHT;
  const shapes = SECTIONS.flatMap((section) => {
    const members = rows.filter(section.isMember);
    if (members.length === 0) return [];
    const drawn = drawSection(section, members, { ...bars, top: bottom });
    bottom = drawn.bottom;
    return drawn.shapes;
  });
  const names = measureWidest(rows.map(({ who }) => `12345.6 ${who}`));
  const width = left + PLOT + names + MARGIN * 2;
  const frame = { width, height: bottom + MARGIN, title };
  return picture({ ...frame, style: STYLE, font: "monospace" }, [
    ...drawHead(title, subtitle),
    ...shapes,
  ]);
}

/** Those who are shown side by side at a glance. */
const OVERVIEW = ["go", "go multus", "ours daemon", "ours"];

/**
 * Chooses the rows for a chart at a glance: the pods of an empty node, attached and
 * detached by the Go plugins, and by ours with and without the daemon.
 */
export function chooseOverview(rows: readonly Row[]): Row[] {
  return rows.filter(({ chain, containers, who }) =>
    chain === "pod" && containers === 0 && OVERVIEW.includes(who)
  );
}

function measureWidest(texts: readonly string[]): number {
  return CHARACTER_WIDTH * Math.max(0, ...texts.map(({ length }) => length));
}

function drawSection(
  { heading, measure }: Section,
  rows: readonly Row[],
  { left, colors, labelOf, top }: BarFrame & { readonly top: number },
): Drawn {
  const ticks = chooseTicks(Math.max(...rows.map((row) => measure(row).q3)));
  const scale = PLOT / (ticks.at(-1) ?? 1);
  const bars: string[] = [];
  let y = top + AXIS;
  for (const [label, members] of Map.groupBy(rows, labelOf)) {
    const middle = y + members.length * BAR / 2 + 4;
    const end = { "text-anchor": "end" };
    bars.push(textAt([left - MARGIN, middle], label, end));
    for (const row of members) {
      const fill = colors.get(row.who) ?? "black";
      const bar = { ...measure(row), name: row.who };
      bars.push(...drawBar(bar, { left, y, scale, fill }));
      y += BAR;
    }
    y += GAP;
  }
  const shapes = [
    textAt([left, top + 16], heading, { "font-weight": "bold" }),
    ...drawScale(ticks, { left, scale, top: top + AXIS, bottom: y }),
    ...bars,
  ];
  return { shapes, bottom: y };
}

function drawScale(
  ticks: readonly number[],
  { left, scale, top, bottom }: {
    readonly left: number;
    readonly scale: number;
    readonly top: number;
    readonly bottom: number;
  },
): string[] {
  return ticks.flatMap((tick) => {
    const x = left + tick * scale;
    return [
      line([x, top - 4], [x, bottom], { class: "grid" }),
      textAt([x, top - 8], `${tick}`, { "text-anchor": "middle" }),
    ];
  });
}

/** Draws a bar, how far it spreads, and its value behind it. */
function drawBar(
  { median, q1, q3, name }: Spread & { readonly name: string },
  { left, y, scale, fill }: {
    readonly left: number;
    readonly y: number;
    readonly scale: number;
    readonly fill: string;
  },
): string[] {
  const middle = y + BAR / 2;
  const end = left + q3 * scale;
  const box = { x: left, y: y + 1, width: median * scale, height: BAR - 2 };
  const label = `${formatMs(median)} ${name}`;
  return [
    element("rect", { ...box, fill }),
    line([left + q1 * scale, middle], [end, middle], { class: "spread" }),
    textAt([end + 5, middle + 4], label),
  ];
}
