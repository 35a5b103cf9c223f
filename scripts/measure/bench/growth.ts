/**
 * How ADD and DEL of a pod grow with the containers on the node: the table and the
 * picture of docs/performance.md, and a row of README.md.
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
} from "../../../cli/svg.ts";
import { runDeno } from "../../project.ts";
import type { Report } from "./report.ts";
import { GO, OURS } from "./subject.ts";
import type { Row } from "./summary.ts";

/** The candidates on the pages, in the order of the table's columns. */
const ON_PAGES = [
  { who: `${OURS} daemon`, column: "", color: "#1f77b4", label: "node daemon" },
  {
    who: OURS,
    column: ", without the daemon",
    color: "#ff7f0e",
    label: "without the daemon",
  },
  { who: GO, column: ", Go plugins", color: "#2ca02c", label: "Go plugins" },
] as const;

const STEPS = ["ADD", "DEL"] as const;

/** The medians of one candidate's step, in ms. */
interface Series {
  readonly step: string;
  readonly column: string;
  readonly color: string;
  readonly label: string;
  /** By the number of containers on the node. */
  readonly ms: ReadonlyMap<number, number>;
}

function listSeries(rows: readonly Row[]): Series[] {
  return STEPS.flatMap((step) =>
    ON_PAGES.flatMap(({ who, column, ...look }) => {
      const own = rows.filter((row) => row.step === step && row.who === who)
        .map(({ containers = 0, wallMs }) =>
          [containers, wallMs.median] as const
        );
      return own.length === 0
        ? []
        : [{ step, column: step + column, ...look, ms: new Map(own) }];
    })
  );
}

function listLevels(rows: readonly Row[]): number[] {
  const levels = new Set(rows.map(({ containers = 0 }) => containers));
  return [...levels].sort((a, b) => a - b);
}

/** Formats 2000 as `2 000`. */
function formatCount(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, " ");
}

/** Formats a table of medians, with their ratios to the row of the fewest containers. */
export function formatGrowth(rows: readonly Row[]): string {
  const series = listSeries(rows);
  const [least, ...more] = listLevels(rows);
  const lines = [least ?? 0, ...more].map((level) => [
    formatCount(level),
    ...series.map(({ ms }) => {
      const [one, first] = [ms.get(level), ms.get(least ?? 0)];
      if (one === undefined) return "";
      if (level === least || first === undefined) return one.toFixed(1);
      return `${one.toFixed(1)} (${(one / first).toFixed(2)})`;
    }),
  ]);
  const head = ["containers", ...series.map(({ column }) => column)];
  const rule = head.map((_, at) => at === 0 ? "---" : "--:");
  return [head, rule, ...lines]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const STYLE = `
  svg { color-scheme: light dark; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .grid { stroke: #d8dee4; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .grid { stroke: #30363d; }
  }
`;
/** The plot of one step, and the room around it, in pixels. */
const PLOT = { left: 56, top: 40, width: 460, height: 200, below: 44 } as const;
/** Between two labels of lines that end near each other. */
const LABEL_HEIGHT = 14;

/** Draws the medians of ADD, and below them of DEL, as lines over the number of containers. */
export function drawGrowth(rows: readonly Row[]): string {
  const all = listSeries(rows);
  const xTicks = chooseTicks(Math.max(1, ...listLevels(rows)));
  const right = PLOT.left + PLOT.width;
  const x = (level: number): number =>
    PLOT.left + PLOT.width * level / (xTicks.at(-1) ?? 1);
  const panelHeight = PLOT.top + PLOT.height + PLOT.below;
  const shapes = STEPS.flatMap((step, at) => {
    const series = all.filter((one) => one.step === step);
    const bottom = at * panelHeight + PLOT.top + PLOT.height;
    const most = Math.max(1, ...series.flatMap(({ ms }) => [...ms.values()]));
    const yTicks = chooseTicks(most);
    const y = (ms: number): number =>
      bottom - PLOT.height * ms / (yTicks.at(-1) ?? 1);
    const endOf = ({ ms }: Series): number => [...ms.values()].at(-1) ?? 0;
    let free = Infinity;
    return [
      textAt([12, bottom - PLOT.height - 18], `${step}, ms by containers`, {
        "font-weight": "bold",
      }),
      ...yTicks.flatMap((tick) => [
        line([PLOT.left, y(tick)], [right, y(tick)], { class: "grid" }),
        textAt([PLOT.left - 6, y(tick) + 4], `${tick}`, {
          "text-anchor": "end",
        }),
      ]),
      ...xTicks.map((tick) =>
        textAt([x(tick), bottom + 18], formatCount(tick), {
          "text-anchor": "middle",
        })
      ),
      // From the lowest line upwards, so that no label covers another one.
      ...series.toSorted((a, b) => endOf(a) - endOf(b)).flatMap((one) => {
        const points = [...one.ms].map(([level, ms]) =>
          `${Math.round(x(level))},${Math.round(y(ms))}`
        ).join(" ");
        free = Math.min(free - LABEL_HEIGHT, y(endOf(one)) + 4);
        const stroke = { fill: "none", stroke: one.color, "stroke-width": 2 };
        return [
          element("polyline", { points, ...stroke }),
          textAt([right + 6, free], one.label, { style: `fill: ${one.color}` }),
        ];
      }),
    ];
  });
  const labels = ON_PAGES.map(({ label }) => label.length);
  return picture({
    width: right + 18 + CHARACTER_WIDTH * Math.max(...labels),
    height: STEPS.length * panelHeight,
    title: "ADD and DEL of a pod by the containers on the node",
    style: STYLE,
  }, shapes);
}

/** The number of containers in the README, unless fewer were measured. */
const IN_README = 1000;

/** Formats the row of the README: ADD and DEL of each candidate, in ms. */
export function formatReadmeRow(rows: readonly Row[]): string {
  const level = listLevels(rows).findLast((level) => level <= IN_README) ?? 0;
  const cells = ON_PAGES.map(({ column }) =>
    STEPS.map((step) => {
      const series = listSeries(rows)
        .find((one) => one.column === step + column);
      return `${series?.ms.get(level)?.toFixed(0) ?? "?"} ms`;
    }).join(", ")
  );
  const label = `${README_LABEL} ${formatCount(level)} containers`;
  return `| ${[label, ...cells].join(" | ")} |`;
}

/** How the row of the README begins. */
const README_LABEL = "ADD, DEL with masquerade, on a node with";
const README_ROW = new RegExp(`^\\| ${README_LABEL} .*$`, "m");

/** The part of a page that this program writes. */
const PART = /<!-- growth -->\n[^]*?<!-- end -->/;

function replacePart(page: string, part: RegExp, text: string): string {
  if (part.test(page)) return page.replace(part, () => text);
  throw new Error(`Cannot write the growth: no page has ${part}`);
}

/**
 * Writes the results into the pages, and the picture beside them.
 *
 * @param root The project's root, which ends in `/`
 * @returns The written files
 * @throws {Error} If a page has no place for them
 */
export async function writeGrowth(
  root: string,
  { rows, machine }: Report,
): Promise<string[]> {
  const { cpus, cpu, versions } = machine;
  // Without what a distribution adds.
  const [kernel = ""] = /^\d+\.\d+/.exec(machine.kernel) ?? [];
  const go = versions[GO] === undefined ? "" : `, Go plugins ${versions[GO]}`;
  const page = `${root}docs/performance.md`, readme = `${root}README.md`;
  const image = `${root}docs/growth.svg`;
  const part = [
    "<!-- growth -->",
    `Median milliseconds of a pod with ptp, bandwidth, sbr and masquerade, and in ` +
    `parentheses the ratio to the first row (${cpus} processors, ${cpu}, Linux ` +
    `${kernel}${go}):`,
    formatGrowth(rows),
    "![ADD and DEL by the containers on the node](growth.svg)",
    "<!-- end -->",
  ].join("\n\n");
  const read = (path: string): Promise<string> => Deno.readTextFile(path);
  const texts = [
    [page, replacePart(await read(page), PART, part)],
    [
      readme,
      replacePart(await read(readme), README_ROW, formatReadmeRow(rows)),
    ],
    [image, drawGrowth(rows)],
  ] as const;
  for (const [path, text] of texts) await Deno.writeTextFile(path, text);
  await runDeno(["fmt", "--quiet", page, readme, image], { cwd: root });
  return texts.map(([path]) => path);
}
