/**
 * Times over the number of containers as curves, a panel for each step.
 *
 * @module
 */

import type { Row } from "./summary.ts";
import {
  chooseColors,
  chooseTicks,
  drawHead,
  element,
  HEAD_HEIGHT,
  line,
  picture,
  textAt,
} from "./svg.ts";

const PANEL = { width: 360, height: 200 } as const;
const LEFT = 52, TOP = HEAD_HEIGHT + 48, GAP = 64, COLUMNS = 2, MARGIN = 12;

/** A point of a curve. */
export interface CurvePoint {
  /** The curve's name. */
  readonly who: string;
  readonly x: number;
  readonly y: number;
}

/** The content of a panel. */
export interface CurvePanel {
  readonly label: string;
  readonly points: readonly CurvePoint[];
}

/** A place on the picture. */
type Point = readonly [x: number, y: number];

/**
 * Draws how the median of the wall time grows: a panel for each step of a chain.
 *
 * @param subtitle Where it was measured
 */
export function drawCurves(
  rows: readonly Row[],
  subtitle: readonly string[],
): string {
  const title = "Wall time of a step, ms (median), by containers on the node";
  return drawCurvePanels(title, subtitle, listPanels(rows));
}

/** Draws panels of curves; a curve has the same colour in all of them. */
export function drawCurvePanels(
  title: string,
  subtitle: readonly string[],
  panels: readonly CurvePanel[],
): string {
  const names = panels.flatMap(({ points }) => points.map(({ who }) => who));
  const colors = chooseColors(names);
  const shapes = panels.flatMap((panel, at) => {
    const x = LEFT + (at % COLUMNS) * (PANEL.width + GAP);
    const y = TOP + Math.floor(at / COLUMNS) * (PANEL.height + GAP);
    return drawPanel(panel, [x, y], colors);
  });
  const lines = Math.ceil(panels.length / COLUMNS);
  const size = {
    width: LEFT + COLUMNS * (PANEL.width + GAP),
    height: TOP + lines * (PANEL.height + GAP) + MARGIN,
  };
  return picture({ ...size, title }, [
    ...drawHead(title, subtitle),
    ...drawLegend(colors),
    ...shapes,
  ]);
}

function drawLegend(colors: ReadonlyMap<string, string>): string[] {
  return [...colors].flatMap(([name, fill], at) => {
    const x = MARGIN + at * 140;
    const box = { x, y: HEAD_HEIGHT, width: 10, height: 10, fill };
    return [element("rect", box), textAt([x + 16, HEAD_HEIGHT + 9], name)];
  });
}

/** Has a panel for each step of a chain, and for each of its plugins. */
function listPanels(rows: readonly Row[]): CurvePanel[] {
  const panels = Map.groupBy(rows, ({ chain, masquerade, step }) => {
    const variant = masquerade ? `${chain}, masquerade` : chain;
    return `${variant}: ${step}`;
  });
  return [...panels].map(([label, rows]) => ({
    label,
    points: rows.map(({ who, containers = 0, wallMs }) => ({
      who,
      x: containers,
      y: wallMs.median,
    })),
  }));
}

function drawPanel(
  { label, points }: CurvePanel,
  [x, y]: Point,
  colors: ReadonlyMap<string, string>,
): string[] {
  const levels = [...new Set(points.map(({ x }) => x))];
  const most = Math.max(1, ...levels);
  const ticks = chooseTicks(Math.max(...points.map(({ y }) => y)));
  const top = ticks.at(-1) ?? 1;
  const at: Place = (across, up) => [
    x + across / most * PANEL.width,
    y + PANEL.height - up / top * PANEL.height,
  ];
  const curves = [...Map.groupBy(points, ({ who }) => who)]
    .flatMap(([who, points]) => {
      const places = points.map(({ x, y }) => at(x, y));
      return drawCurve(places, colors.get(who) ?? "black");
    });
  return [
    textAt([x, y - 8], label, { "font-weight": "bold" }),
    ...drawGrid(ticks, at),
    ...drawAxis(thinOut(levels, most), at),
    ...curves,
  ];
}

/** Says where a value is on the picture. */
type Place = (across: number, up: number) => Point;

function drawGrid(ticks: readonly number[], at: Place): string[] {
  return ticks.flatMap((tick) => {
    const [x, y] = at(0, tick);
    return [
      line([x, y], [x + PANEL.width, y], { class: "grid" }),
      textAt([x - 6, y + 4], `${tick}`, { "text-anchor": "end" }),
    ];
  });
}

function drawAxis(levels: readonly number[], at: Place): string[] {
  return levels.map((level) => {
    const [x, y] = at(level, 0);
    return textAt([x, y + 16], `${level}`, { "text-anchor": "middle" });
  });
}

/** Omits numbers that would overlap. */
function thinOut(levels: readonly number[], most: number): number[] {
  return levels.filter((level) => level === 0 || level >= most / 8);
}

function drawCurve(points: readonly Point[], color: string): string[] {
  const list = points.map((point) =>
    point.map((value) => value.toFixed(1)).join()
  ).join(" ");
  const curve = { points: list, fill: "none", stroke: color };
  return [
    element("polyline", { ...curve, "stroke-width": 2 }),
    ...points.map(([cx, cy]) =>
      element("circle", { cx, cy, r: 3, fill: color })
    ),
  ];
}
