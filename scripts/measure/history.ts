/**
 * Adds a run of `deno task bench` to those before, and writes a page of all of them:
 * `deno task bench:history`.
 *
 * What is compared is the time compared with the Go plugins', measured in
 * turns on the same machine: machines of different nights differ more than
 * versions do.
 *
 * @module
 */

import { escapeXml } from "../../base/command_line/svg.ts";
import { ROOT } from "../compile/project.ts";
import { answerHelp, readOptions } from "../help.ts";
import type { Report } from "./bench/report.ts";

/** The record of a run: the median ratio of each step of each contestant. */
interface Entry {
  readonly commit: string;
  readonly date: string;
  readonly cpu: string;
  readonly ratios: Readonly<Record<string, number>>;
}

/** Takes what stays of a run: steps that were compared. */
export function summarizeRun({ machine, rows }: Report, commit: string): Entry {
  const { date, cpu } = machine;
  const ratios = rows.flatMap(({ cell, step, who, ratio }) =>
    ratio === undefined
      ? []
      : [[`${cell}: ${step}, ${who}`, ratio.median] as const]
  );
  return { commit, date, cpu, ratios: Object.fromEntries(ratios) };
}

/** Formats the page: a row for each step, a column for each run, the newest first. */
export function formatPage(entries: readonly Entry[]): string {
  const runs = entries.toReversed();
  const row = (cells: readonly string[], kind = "td"): string =>
    `<tr>${cells.map((cell) => `<${kind}>${escapeXml(cell)}`).join("")}`;
  const steps = new Set(runs.flatMap(({ ratios }) => Object.keys(ratios)));
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Measurements of each night</title>
<style>body { font: 14px sans-serif; margin: 2em } td { padding-right: 1em }</style>
<h1>Measurements of each night</h1>
<p>Wall time as a multiple of the time of the Go plugins, medians: less is better.
<a href="history.jsonl">All figures</a></p>
<table>
${row(["", ...runs.map(({ date }) => date)], "th")}
${row(["", ...runs.map(({ commit }) => commit.slice(0, 12))])}
${row(["", ...runs.map(({ cpu }) => cpu)])}
${
    [...steps].map((step) =>
      row([step, ...runs.map(({ ratios }) => ratios[step]?.toFixed(2) ?? "")])
    ).join("\n")
  }
</table>
`;
}

if (import.meta.main) {
  answerHelp(`Add a run of "deno task bench" to those before, in a page.
Usage: deno task bench:history [--commit SHA] [--bench FILE] [--out DIRECTORY]
  --commit SHA     what was measured
  --bench FILE     the results (default dist/bench/bench.json)
  --out DIRECTORY  gets history.jsonl and index.html (default dist/history); its
                   history.jsonl is added to`);
  const {
    commit = "",
    bench = `${ROOT}dist/bench/bench.json`,
    out = `${ROOT}dist/history`,
  } = readOptions({
    commit: { type: "string" },
    bench: { type: "string" },
    out: { type: "string" },
  });
  const report = JSON.parse(await Deno.readTextFile(bench)) as Report;
  const entry = summarizeRun(report, commit);
  if (Object.keys(entry.ratios).length === 0) {
    throw new Error(`Cannot add "${bench}": it compares with nothing`);
  }
  await Deno.mkdir(out, { recursive: true });
  const list = `${out}/history.jsonl`;
  const line = `${JSON.stringify(entry)}\n`;
  await Deno.writeTextFile(list, line, { append: true });
  const entries = (await Deno.readTextFile(list)).trim().split("\n")
    .map((text): Entry => JSON.parse(text));
  await Deno.writeTextFile(`${out}/index.html`, formatPage(entries));
  console.log(`${out}/index.html: ${entries.length} runs`);
}
