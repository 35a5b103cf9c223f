/**
 * How the times of calls grow with the containers on the node.
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
import { chooseColors, drawHead, HEAD_HEIGHT, STYLE } from "./charts.ts";
import { formatMs } from "./report.ts";
import type { Row } from "./summary.ts";

const STEPS = ["ADD", "DEL"] as const;

/** The medians of a contestant's step, by the number of containers. */
interface Series {
  readonly step: string;
  readonly who: string;
  readonly ms: ReadonlyMap<number, number>;
}

/** Lists the series of whole steps. */
function listSeries(rows: readonly Row[]): Series[] {
  return STEPS.flatMap((step) => {
    const ofStep = rows.filter((row) =>
      row.step === step && row.containers !== undefined
    );
    return [...Map.groupBy(ofStep, ({ who }) => who)].map(([who, own]) => ({
      step,
      who,
      ms: new Map(
        own.map(({ containers = 0, wallMs }) => [containers, wallMs.median]),
      ),
    }));
  });
}

function listLevels(series: readonly Series[]): number[] {
  return [...new Set(series.flatMap(({ ms }) => [...ms.keys()]))]
    .sort((a, b) => a - b);
}

/** Formats a table: the median of each contestant's ADD and DEL, and how often that of the first column it is. */
export function formatGrowth(rows: readonly Row[]): string {
  const series = listSeries(rows);
  const levels = listLevels(series);
  const lines = series.map(({ step, who, ms }) => {
    const first = ms.get(levels[0] ?? 0);
    const cells = levels.map((level) => {
      const median = ms.get(level);
      if (median === undefined) return "";
      const text = median.toFixed(1);
      return first === undefined || level === levels[0]
        ? text
        : `${text} (${(median / first).toFixed(2)})`;
    });
    return [step, who, ...cells];
  });
  const head = ["step", "who", ...levels.map(String)];
  const rule = head.map((_, at) => at < 2 ? "---" : "--:");
  return [head, rule, ...lines]
    .map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

const MARGIN = 12;
/** Of the plot of one step, with room for numbers at its left and below. */
const PLOT = { left: 60, width: 480, height: 240, below: 64 } as const;
/** Between two names behind lines that end near each other. */
const LINE_HEIGHT = 14;

/**
 * Draws the medians of ADD and DEL as lines over the number of containers.
 *
 * @param subtitle Where it was measured
 */
export function drawGrowth(
  rows: readonly Row[],
  subtitle: readonly string[],
): string {
  const series = listSeries(rows);
  const colors = chooseColors(series.map(({ who }) => who));
  const names = series.map(({ who }) => `12345.6 ${who}`.length);
  const width = PLOT.left + PLOT.width + MARGIN * 2 +
    CHARACTER_WIDTH * Math.max(0, ...names);
  const title = "What a step takes with other containers on the node (median)";
  const panels = STEPS.flatMap((step, at) =>
    drawPanel(
      series.filter((one) => one.step === step),
      `${step}: wall time in ms, by containers on the node`,
      { colors, top: HEAD_HEIGHT + at * (PLOT.height + PLOT.below) },
    )
  );
  const height = HEAD_HEIGHT + STEPS.length * (PLOT.height + PLOT.below);
  return picture({ width, height, title, style: STYLE, font: "monospace" }, [
    ...drawHead(title, subtitle),
    ...panels,
  ]);
}

function drawPanel(
  series: readonly Series[],
  heading: string,
  { colors, top }: {
    readonly colors: ReadonlyMap<string, string>;
    readonly top: number;
  },
): string[] {
  const levels = listLevels(series);
  const all = series.flatMap(({ ms }) => [...ms.values()]);
  const [yTicks, xTicks] = [all, levels]
    .map((values) => chooseTicks(Math.max(1, ...values))) as [
      number[],
      number[],
    ];
  const bottom = top + 24 + PLOT.height;
  const x = (level: number): number =>
    PLOT.left + PLOT.width * level / (xTicks.at(-1) ?? 1);
  const y = (ms: number): number =>
    bottom - PLOT.height * ms / (yTicks.at(-1) ?? 1);
  const end = { "text-anchor": "end" }, middle = { "text-anchor": "middle" };
  const last = x(xTicks.at(-1) ?? 1);
  let free = Infinity;
  // From the lowest upwards, so that no name covers another one.
  const lines = series.toSorted((a, b) => endOf(a) - endOf(b))
    .flatMap((one) => {
      const color = colors.get(one.who) ?? "black";
      const points = [...one.ms].map(([level, ms]) => `${x(level)},${y(ms)}`);
      free = Math.min(free - LINE_HEIGHT, y(endOf(one)) + 4);
      return [
        element("polyline", {
          points: points.join(" "),
          fill: "none",
          stroke: color,
          "stroke-width": 2,
        }),
        textAt([last + 6, free], `${formatMs(endOf(one))} ${one.who}`, {
          style: `fill: ${color}`,
        }),
      ];
    });
  return [
    textAt([MARGIN, top + 8], heading, { "font-weight": "bold" }),
    ...yTicks.flatMap((tick) => [
      line([PLOT.left, y(tick)], [last, y(tick)], { class: "grid" }),
      textAt([PLOT.left - 6, y(tick) + 4], `${tick}`, end),
    ]),
    ...xTicks.map((tick) => textAt([x(tick), bottom + 18], `${tick}`, middle)),
    ...lines,
  ];
}

/** Returns a series' last median. */
function endOf({ ms }: Series): number {
  return [...ms.values()].at(-1) ?? 0;
}
