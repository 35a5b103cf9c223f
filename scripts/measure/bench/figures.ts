/**
 * The figures of the documentation, of which results.txt is the
 * only source: tables of docs/performance.md, and sentences there and in the
 * README.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { ROOT } from "../../compile/project.ts";
import { exists } from "../../../base/files/io.ts";
import { formatGrowth } from "./growth.ts";
import { formatTables, type Report } from "./report.ts";
import type { Row } from "./summary.ts";

/** A table: its rows, by the names of their columns. */
type Table = readonly Readonly<Record<string, string>>[];

/** The tables by their headings. */
type Tables = ReadonlyMap<string, Table>;

/** Reads the tables of a page, one below each heading. */
export function parseTables(page: string): Map<string, Table> {
  return new Map(
    splitSections(page).map(([heading, text]) => [heading, parseTable(text)]),
  );
}

/** Splits a page into what is below its headings of the second level. */
function splitSections(page: string): [heading: string, text: string][] {
  return page.split(/^## /m).slice(1).map((section) => {
    const [heading = "", ...lines] = section.split("\n");
    return [heading, lines.join("\n").trim()];
  });
}

function parseTable(text: string): Table {
  const [columns = [], , ...rows] = text.split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
  return rows.map((cells) =>
    Object.fromEntries(columns.map((name, at) => [name, cells[at] ?? ""]))
  );
}

/** Replaces the sections of a page that another one has, too; adds the others. */
export function replaceSections(page: string, other: string): string {
  const sections = new Map([...splitSections(page), ...splitSections(other)]);
  const [head = ""] = page.split(/^## /m);
  return [
    head.trim(),
    ...[...sections].map(([heading, text]) => `## ${heading}\n\n${text}`),
  ].join("\n\n") + "\n";
}

/** Formats the sections of results.txt: CPU time is in `bench.md` only. */
export function formatSections(rows: readonly Row[]): string {
  return formatTables(rows, (heading) => heading !== "CPU ms");
}

const POD = "pod (ptp, bandwidth, sbr)";
const AT_ONCE = [1, 4, 16, 64];

/** The heading of the table of {@linkcode formatGrowth}. */
const GROWTH = `${POD}, masquerade, with other containers`;

/** The headings of pods on an empty node. */
function headingOf(isMasqueraded: boolean, atOnce: number): string {
  return [
    POD,
    ...isMasqueraded ? ["masquerade"] : [],
    "0 containers",
    ...atOnce > 1 ? [`${atOnce} at once`] : [],
  ].join(", ");
}

/** Reads figures. */
class Figures {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  /** Returns a figure; "" if it was not measured. */
  find(
    heading: string,
    row: { readonly step: string; readonly who: string },
    column: string,
  ): string {
    const table = this.#tables.get(heading);
    if (table === undefined) throw new Error(`No table has "${heading}"`);
    return table.find(({ step, who }) => step === row.step && who === row.who)
      ?.[column] ?? "";
  }

  /** Lists the columns of a table whose names are numbers. */
  levels(heading: string): string[] {
    return Object.keys(this.#tables.get(heading)?.[0] ?? {})
      .filter((name) => /^\d+$/.test(name));
  }

  /** Returns the least and the most of a column, where it was measured. */
  range(
    headings: readonly string[],
    row: { readonly step: RegExp; readonly who: string },
    column: string,
  ): readonly [least: number, most: number] {
    const numbers = headings.flatMap((heading) =>
      this.#tables.get(heading) ?? []
    )
      .filter(({ step = "", who }) => row.step.test(step) && who === row.who)
      .map((one) => one[column] ?? "").filter(Boolean).map(Number);
    return [Math.min(...numbers), Math.max(...numbers)];
  }
}

const EMPTY_NODE = [false, true].flatMap((isMasqueraded) =>
  AT_ONCE.map((atOnce) => headingOf(isMasqueraded, atOnce))
);

const CONTESTANTS = [
  ["node daemon", "ours daemon"],
  ["one process (`chain`)", "ours chain"],
  ["Go multus 4.3", "go multus"],
  ["thick multus", "ours multus thick"],
  ["Go thick multus", "go multus thick"],
] as const;

/** Formats the table of ratios. */
function formatRatios(figures: Figures): string {
  const names = CONTESTANTS.map(([name]) => name);
  const rows = [false, true].flatMap((isMasqueraded) =>
    [1, 16].flatMap((atOnce) =>
      ["ADD", "DEL"].map((step) => [
        [
          step,
          ...isMasqueraded ? ["masquerade"] : [],
          ...atOnce > 1 ? [`${atOnce} in parallel`] : [],
        ].join(", "),
        ...CONTESTANTS.map(([, who]) =>
          figures.find(
            headingOf(isMasqueraded, atOnce),
            { step, who },
            "wall/go",
          )
        ),
      ])
    )
  );
  return formatTable(["step", ...names], rows);
}

/** Formats the table of pods on a node with other containers. */
function formatLevels(figures: Figures): string {
  const contestants = [
    ["", "ours daemon"],
    [", without the daemon", "ours"],
    [", Go plugins", "go"],
  ] as const;
  const columns = ["ADD", "DEL"].flatMap((step) =>
    contestants.map(([name, who]) => ({ name: `${step}${name}`, step, who }))
  );
  const rows = figures.levels(GROWTH).map((level) => [
    level,
    ...columns.map((one) => figures.find(GROWTH, one, level)),
  ]);
  return formatTable(["containers", ...columns.map(({ name }) => name)], rows);
}

/** Formats the table of pods per second. */
function formatRates(figures: Figures): string {
  const steps = [false, true].flatMap((isMasqueraded) =>
    ["ADD", "DEL"].map((step) => ({ isMasqueraded, step }))
  );
  const names = steps.flatMap(({ isMasqueraded, step }) => [
    isMasqueraded ? `${step}, masquerade` : step,
    "Go plugins",
  ]);
  const rows = AT_ONCE.filter((atOnce) => atOnce > 1).map((atOnce) => [
    String(atOnce),
    ...steps.flatMap(({ isMasqueraded, step }) =>
      ["ours daemon", "go"].map((who) => {
        const heading = headingOf(isMasqueraded, atOnce);
        const found = figures.find(heading, { step, who }, "per second");
        return Number(found).toFixed(0);
      })
    ),
  ]);
  return formatTable(["in parallel", ...names], rows);
}

function formatTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = columns.map((_, at) => at === 0 ? "---" : "--:");
  return [columns, line, ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Replaces the table whose first column has a name, up to the next empty line. */
function putTable(page: string, table: string): string {
  const names = table.split("|").slice(1, 3).map((name) => escape(name.trim()));
  const found = new RegExp(
    `^\\| ${names[0]} +\\| +${names[1]} +\\|.*\\n(\\|.*\\n)+`,
    "m",
  );
  if (!found.test(page)) throw new Error(`No table begins with ${names}`);
  return page.replace(found, () => `${table}\n`);
}

/**
 * Replaces what is between the comments that name the growth.
 *
 * @throws {Error} If the page does not have them
 */
function putGrowth(page: string, text: string): string {
  const found = /(<!-- growth -->)[^]*?(<!-- end of growth -->)/;
  if (!found.test(page)) throw new Error("No place for the growth");
  return page.replace(
    found,
    (_, begin, end) => `${begin}\n\n${text}\n\n${end}`,
  );
}

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/**
 * Puts values into a sentence of a page.
 *
 * @param sentence Has a `#` where a number is; line breaks may be anywhere
 * @throws {Error} If the page does not have it once
 */
export function putValues(
  page: string,
  sentence: string,
  values: readonly string[],
): string {
  const parts = sentence.split("#")
    .map((part) => escape(part).replaceAll(/ +/g, "\\s+"));
  const found = new RegExp(`(${parts.join(")[\\d.]+(")})`, "g");
  if (page.match(found)?.length !== 1) throw new Error(`No "${sentence}"`);
  return page.replace(
    found,
    (_, ...texts: string[]) =>
      parts.map((_, at) => `${texts[at]}${values[at] ?? ""}`).join(""),
  );
}

function toTexts(
  digits: number,
  ...numbers: readonly (number | string)[]
): string[] {
  return numbers.map((number) => Number(number).toFixed(digits));
}

/** Puts the figures into the README. */
export function updateReadme(page: string, tables: Tables): string {
  const figures = new Figures(tables);
  const pod = headingOf(false, 1);
  const wall = (step: string, who: string): string =>
    figures.find(pod, { step, who }, "wall ms");
  const ratios = (step: RegExp, who: string): readonly [number, number] =>
    figures.range(EMPTY_NODE, { step, who }, "wall/go");
  const rows: readonly (readonly [string, readonly string[]])[] = [
    [
      "ADD of a pod with three plugins takes # to # times as long as with " +
      "the Go plugins, and DEL # to # times. Without the daemon, ADD takes " +
      "# to # times as long",
      [
        ...toTexts(1, ...ratios(/^ADD$/, "ours daemon")),
        ...toTexts(1, ...ratios(/^DEL$/, "ours daemon")),
        ...toTexts(0, ...ratios(/^ADD$/, "ours")),
      ],
    ],
    [
      "ADD takes # ms (Go plugins: # ms), and DEL takes # ms (Go plugins: # ms).",
      toTexts(
        0,
        ...[wall("ADD", "ours daemon"), wall("ADD", "go")],
        ...[wall("DEL", "ours daemon"), wall("DEL", "go")],
      ),
    ],
    [
      "ADD then takes # ms, or # ms with [`chain`]",
      toTexts(0, wall("ADD", "ours"), wall("ADD", "ours chain")),
    ],
  ];
  const updated = rows.reduce(
    (text, [one, values]) => putValues(text, one, values),
    page,
  );
  if (!tables.has(GROWTH)) return updated;
  const at = (step: string, who: string): string =>
    parseFloat(figures.find(GROWTH, { step, who }, "1000")).toFixed(0);
  return putGrowth(
    updated,
    `With 1 000 containers on the node, an ADD with masquerade takes ${
      at("ADD", "ours daemon")
    } ms, and ${at("ADD", "go")} ms with the Go plugins; a DEL ${
      at("DEL", "ours daemon")
    } ms and ${at("DEL", "go")} ms.`,
  );
}

/** Puts the figures into docs/performance.md. */
export function updatePerformance(page: string, tables: Tables): string {
  const figures = new Figures(tables);
  const version = (who: string): readonly [number, number] =>
    figures.range(["start of a process"], { step: /^VERSION/, who }, "wall ms");
  const drain = `${headingOf(true, 1)}, drain of 110`;
  const seconds = (who: string): number[] =>
    ["DEL, all at once", "DEL, one after the other"].map((step) =>
      Number(figures.find(drain, { step, who }, "wall ms")) / 1000
    );
  const withStart = putValues(
    page,
    "which takes # to # milliseconds (a Go plugin starts in # to #)",
    [
      ...toTexts(0, ...version("ours")),
      ...toTexts(1, ...version("go")),
    ],
  );
  const withDrain = putValues(
    withStart,
    "the daemon detaches 110 pods with masquerade in # s if all DELs " +
      "arrive together, and in # s one after the other. The Go plugins take # s and # s.",
    [...toTexts(1, ...seconds("ours daemon")), ...toTexts(1, ...seconds("go"))],
  );
  const updated = putTable(
    putTable(withDrain, formatRatios(figures)),
    formatRates(figures),
  );
  if (!tables.has(GROWTH)) return updated;
  const table = formatLevels(figures);
  const picture =
    "![Time of ADD and DEL by containers on the node](growth.svg)";
  return putGrowth(
    updated,
    `Milliseconds, and how often those of an empty node:\n\n${table}\n\n${picture}`,
  );
}

const TABLES = `${ROOT}scripts/measure/bench/results.txt`;
const PERFORMANCE = `${ROOT}docs/performance.md`;
const README = `${ROOT}README.md`;

/**
 * Takes over the tables of a run, the picture beside them, and the figures of the
 * pages that quote them.
 *
 * @param results A `bench.json` or `growth.json`
 */
export async function writeFigures(results: string): Promise<void> {
  const { rows, growth }: Report = JSON.parse(await Deno.readTextFile(results));
  const before = await Deno.readTextFile(TABLES);
  const sections = growth
    ? `## ${GROWTH}\n\n${formatGrowth(rows)}`
    : formatSections(rows);
  const page = replaceSections(before, sections);
  const tables = parseTables(page);
  const [performance = "", readme = ""] = await Promise.all(
    [PERFORMANCE, README].map((file) => Deno.readTextFile(file)),
  );
  // Nothing is written if one of them cannot be.
  const pages: readonly (readonly [string, string])[] = [
    [TABLES, page],
    [PERFORMANCE, updatePerformance(performance, tables)],
    [README, updateReadme(readme, tables)],
  ];
  for (const [file, text] of pages) await Deno.writeTextFile(file, text);
  const [from, to] = growth
    ? ["growth.svg", "growth.svg"]
    : ["bench.overview.svg", "performance.svg"];
  const picture = `${dirname(results)}/${from}`;
  if (exists(picture)) await Deno.copyFile(picture, `${ROOT}docs/${to}`);
  await new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--quiet", PERFORMANCE, README],
  }).output();
}
