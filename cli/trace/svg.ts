/**
 * A trace as a picture: lanes for the plugins of each process, and for their
 * requests to the kernel, files and programs. It follows the viewer's light or
 * dark colours.
 *
 * @module
 */

import type { StepKind } from "./record.ts";
import {
  CHARACTER_WIDTH,
  chooseTicks,
  element,
  escapeXml,
  line,
  picture,
  textAt,
} from "../svg.ts";
import { shorten } from "../../base/command_line/table.ts";
import {
  formatMs,
  KIND_NAMES,
  lengthOf,
  nameProcess,
  sumUp,
  type TraceStep,
} from "./timeline.ts";

const WIDTH = 1200, LEFT = 130, RIGHT = 20, LANE = 22, BAR = 18, LINE = 17;
const PLOT = WIDTH - LEFT - RIGHT;
/** Narrower bars could not be seen. */
const NARROWEST = 1.5;
/** How many of the slowest steps are listed. */
const SLOWEST = 12;

const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .dim { fill: #57606a; }
  .name { font-weight: bold; } .grid { stroke: #d8dee4; } .on { fill: #ffffff; }
  .call { fill: #6e7781; } .plugin { fill: #0969da; } .netlink { fill: #1a7f37; }
  .nftables { fill: #8250df; } .file { fill: #9a6700; } .process { fill: #bc4c00; }
  .wait { fill: #bf3989; } .system { fill: #57606a; } .failed { stroke: #cf222e; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #9198a1; }
    .grid { stroke: #30363d; } .on { fill: #0d1117; }
    .call { fill: #9198a1; } .plugin { fill: #4493f8; } .netlink { fill: #3fb950; }
    .nftables { fill: #ab7df8; } .file { fill: #d29922; } .process { fill: #db6d28; }
    .wait { fill: #db61a2; } .system { fill: #768390; } .failed { stroke: #f85149; }
  }
`;

/** A row of bars. */
interface Lane {
  readonly label: string;
  readonly steps: readonly TraceStep[];
}

/** Draws the picture. */
export function drawTrace(title: string, steps: readonly TraceStep[]): string {
  const total = lengthOf(steps);
  const ticks = chooseTicks(Math.max(0.1, total));
  const scale = PLOT / (ticks.at(-1) ?? 1);
  const xs = ticks.map((tick) => LEFT + tick * scale);
  const groups = [...Map.groupBy(steps, ({ pid }) => pid).values()];
  const totals = sumUp(steps).map(({ kind, count, tookMs }) =>
    `${KIND_NAMES[kind]} ${formatMs(tookMs)} ms (${count})`
  );
  const shapes: string[] = [];
  const top = 84;
  let y = top;
  for (const own of groups) {
    const name = `${nameProcess(own)}, process ${own[0]?.pid}`;
    shapes.push(textAt([12, y + 14], name, { class: "name" }));
    y += LANE;
    const first = y;
    for (const { label, steps } of listLanes(own)) {
      const end = { "text-anchor": "end", class: "dim" };
      shapes.push(textAt([LEFT - 10, y + 13], label, end));
      shapes.push(...steps.map((step) => drawBar(step, y, scale)));
      y += LANE;
    }
    shapes.unshift(
      ...xs.map((x) => line([x, first], [x, y - 2], { class: "grid" })),
    );
    y += LANE / 2;
  }
  const scaleTexts = ticks.map((tick, at) =>
    textAt([xs[at] ?? 0, top - 12], `${tick}`, {
      "text-anchor": "middle",
      class: "dim",
    })
  );
  const list = drawSlowest(steps, y + 12);
  const height = list.bottom + 14;
  const characters = Math.floor((WIDTH - 24) / CHARACTER_WIDTH);
  const head = shorten(`${title}: ${formatMs(total)} ms`, characters);
  return picture({ width: WIDTH, height, title, style: STYLE }, [
    textAt([12, 22], head, { class: "name" }),
    textAt([12, 22 + LINE], shorten(totals.join(" · "), characters), {
      class: "dim",
    }),
    textAt([12, top - 12], "ms", { class: "dim" }),
    ...scaleTexts,
    ...shapes,
    ...list.shapes,
  ]);
}

/** Lists the lanes of a process. Steps that overlap get lanes of their own. */
function listLanes(steps: readonly TraceStep[]): Lane[] {
  const kinds: readonly StepKind[] = [
    ...["call", "plugin", "netlink", "nftables"] as const,
    ...["file", "process", "wait", "system"] as const,
  ];
  return kinds.flatMap((kind) => {
    const lanes: TraceStep[][] = [];
    for (const step of steps.filter((one) => one.kind === kind)) {
      const free = lanes.find((lane) => {
        const last = lane.at(-1);
        return last === undefined || last.atMs + last.tookMs <= step.atMs;
      });
      if (free === undefined) lanes.push([step]);
      else free.push(step);
    }
    const label = kind === "call" ? "process" : KIND_NAMES[kind];
    return lanes.map((steps, at) => ({ label: at === 0 ? label : "", steps }));
  });
}

function describe({ name, object }: TraceStep): string {
  return [name, object].filter(Boolean).join(" ");
}

function drawBar(step: TraceStep, y: number, scale: number): string {
  const { kind, atMs, tookMs, error } = step;
  const width = Math.max(NARROWEST, tookMs * scale);
  const x = LEFT + atMs * scale;
  const text = describe(step);
  const tip = `${text}: ${formatMs(tookMs)} ms${error ? `, ${error}` : ""}`;
  const style = error === undefined ? kind : `${kind} failed`;
  const box = { x, y, width, height: BAR, rx: 2, class: style };
  const room = Math.floor((width - 8) / CHARACTER_WIDTH);
  const label = room < 4
    ? ""
    : textAt([x + 4, y + 13], shorten(text, room), { class: "on" });
  return element(
    "g",
    {},
    element("title", {}, escapeXml(tip)) + element("rect", box) + label,
  );
}

/** Lists the steps that took longest, without steps that only contain other steps. */
function drawSlowest(
  steps: readonly TraceStep[],
  top: number,
): { readonly shapes: string[]; readonly bottom: number } {
  const slowest = steps
    .filter(({ kind }) => kind !== "call" && kind !== "plugin")
    .toSorted((left, right) => right.tookMs - left.tookMs)
    .slice(0, SLOWEST);
  const characters = Math.floor((WIDTH - 150) / CHARACTER_WIDTH);
  const shapes = slowest.flatMap((step, at) => {
    const y = top + LINE * (at + 1);
    const end = { "text-anchor": "end" };
    const { kind, atMs, tookMs } = step;
    return [
      element("rect", { x: 12, y: y - 10, width: 10, height: 10, class: kind }),
      textAt([90, y], `${formatMs(tookMs)} ms`, end),
      textAt(
        [100, y],
        shorten(`at ${formatMs(atMs)}  ${describe(step)}`, characters),
      ),
    ];
  });
  if (slowest.length > 0) {
    shapes.unshift(textAt([12, top], "Slowest steps", { class: "name" }));
  }
  return { shapes, bottom: top + LINE * slowest.length };
}
