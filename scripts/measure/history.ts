// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Adds a run of `deno task bench` to those before, and draws them:
 * `deno task bench:history`.
 *
 *     deno task bench:history [--commit SHA] [--bench FILE] [--out DIRECTORY]
 *
 * What is compared is the time beside the Go plugins', measured in turns on the
 * same machine: machines of different nights differ more than versions do.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { escapeXml } from "../../base/command_line/svg.ts";
import { describeError } from "../../base/error.ts";
import { ROOT } from "../compile/project.ts";
import { answerHelp } from "../help.ts";
import { type CurvePanel, drawCurvePanels } from "./bench/charts.ts";
import type { Report } from "./bench/report.ts";

/** The record of a run. */
interface Entry {
  readonly commit: string;
  readonly machine: Pick<Report["machine"], "date" | "kernel" | "cpu">;
  readonly figures: readonly Figure[];
}

/** A step of a contestant: median times, in ms and beside another contestant's. */
interface Figure {
  readonly cell: string;
  readonly step: string;
  readonly who: string;
  readonly wallMs: number;
  readonly to: string;
  readonly ratio: number;
}

/** Takes what stays of a run: whole steps that were compared. */
export function summarizeRun({ machine, rows }: Report, commit: string): Entry {
  const { date, kernel, cpu } = machine;
  const figures = rows.flatMap(({ cell, step, who, wallMs, ratio }) =>
    ratio === undefined || step.includes(" ") ? [] : [{
      ...{ cell, step, who, wallMs: wallMs.median },
      ...{ to: ratio.to, ratio: ratio.wallMs.median },
    }]
  );
  return { commit, machine: { date, kernel, cpu }, figures };
}

/** Draws a panel for each step: the runs from left to right. */
export function drawHistory(entries: readonly Entry[]): string {
  const rows = entries.flatMap(({ figures }, x) =>
    figures.map((figure) => ({ ...figure, x }))
  );
  const panels = [...Map.groupBy(rows, ({ cell, step }) => `${cell}: ${step}`)]
    .map(([label, rows]): CurvePanel => ({
      label,
      points: rows.map(({ who, x, ratio }) => ({ who, x, y: ratio })),
    }));
  const [first] = rows;
  const title = `Wall time, as a multiple of that of ${first?.to ?? "go"}`;
  return drawCurvePanels(title, [
    "Median of the rounds, over the number of the run",
    `${entries[0]?.machine.date} to ${entries.at(-1)?.machine.date}`,
  ], panels);
}

/** Formats the page: the picture, and the runs, newest first. */
export function formatPage(entries: readonly Entry[]): string {
  const rows = entries.map(({ commit, machine: { date, kernel, cpu } }, at) =>
    [`${at}`, date, commit.slice(0, 12), kernel, cpu]
      .map((text) => `<td>${escapeXml(text)}</td>`).join("")
  ).reverse();
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Measurements of each night</title>
<style>body { font-family: sans-serif; margin: 2em } td { padding-right: 2em }</style>
<h1>Measurements of each night</h1>
<p>Less is better; 1 is as long as the Go plugins take.
<a href="history.jsonl">All figures</a></p>
<p><img src="history.svg" alt="Times beside the Go plugins, by night"></p>
<table>
<tr>${rows.join("</tr>\n<tr>")}</tr>
</table>
</html>
`;
}

async function main(): Promise<void> {
  const flags = parseArgs(Deno.args, {
    string: ["commit", "bench", "out"],
    unknown: (arg) => {
      throw new Error(`Cannot understand "${arg}"\n\n${HELP}`);
    },
  });
  const { commit = "", out = `${ROOT}dist/history` } = flags;
  const bench = flags.bench ?? `${ROOT}dist/bench/bench.json`;
  const report = JSON.parse(await Deno.readTextFile(bench)) as Report;
  const entry = summarizeRun(report, commit);
  if (entry.figures.length === 0) {
    throw new Error(`Cannot add "${bench}": it compares with nothing`);
  }
  await Deno.mkdir(out, { recursive: true });
  const list = `${out}/history.jsonl`;
  const line = `${JSON.stringify(entry)}\n`;
  await Deno.writeTextFile(list, line, { append: true });
  const entries = (await Deno.readTextFile(list)).trim().split("\n")
    .map((text) => JSON.parse(text) as Entry);
  await Deno.writeTextFile(`${out}/history.svg`, drawHistory(entries));
  await Deno.writeTextFile(`${out}/index.html`, formatPage(entries));
  console.log(`${out}/index.html: ${entries.length} runs`);
}

const HELP = `Add a run of "deno task bench" to those before, and draw them.

Usage: deno task bench:history [--commit SHA] [--bench FILE] [--out DIRECTORY]

  --commit SHA     what was measured
  --bench FILE     the results (default dist/bench/bench.json)
  --out DIRECTORY  gets history.jsonl, history.svg and index.html (default
                   dist/history); its history.jsonl is added to`;

if (import.meta.main) {
  answerHelp(HELP);
  try {
    await main();
  } catch (error) {
    console.error(describeError(error));
    Deno.exit(1);
  }
}
