import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Report } from "./bench/report.ts";
import { sampleReport, sampleRow } from "./bench/report_sample.ts";
import { drawHistory, formatPage, summarizeRun } from "./history.ts";

const spread = { median: 0, q1: 0, q3: 0, min: 0 };

/** A run in which our ADD takes some times as long as Go's. */
function runWith(median: number): Report {
  const ratio = {
    to: "go",
    wallMs: { ...spread, median },
    cpuMs: { ...spread, median },
  };
  return sampleReport([
    sampleRow({ ratio }),
    sampleRow({ who: "go" }),
    sampleRow({ step: "ADD ptp", ratio }),
  ]);
}

Deno.test("summarizeRun() keeps whole steps that were compared", () => {
  assertEquals(summarizeRun(runWith(0.5), "abc"), {
    commit: "abc",
    machine: {
      date: "2026-01-02T03:04Z",
      kernel: "6.1.0",
      cpu: "Fast One",
    },
    figures: [{
      cell: "ptp, 0 containers",
      step: "ADD",
      who: "ours",
      wallMs: 25,
      to: "go",
      ratio: 0.5,
    }],
  });
});

Deno.test("drawHistory() draws a point for each run, lower where it takes less", () => {
  const entries = [2, 1, 0.5].map((ratio) => summarizeRun(runWith(ratio), ""));
  const svg = drawHistory(entries);
  assertStringIncludes(svg, ">ptp, 0 containers: ADD<");
  assertStringIncludes(svg, "as a multiple of that of go");
  const heights = [...svg.matchAll(/<circle [^>]*cy="([\d.]+)"/g)]
    .map(([, y]) => Number(y));
  assertEquals(heights.length, 3);
  assertEquals(heights, heights.toSorted((a, b) => a - b));
});

Deno.test("formatPage() lists the runs, newest first, and escapes", () => {
  const entries = ["first", "<b>"].map((commit) =>
    summarizeRun(runWith(1), commit)
  );
  const page = formatPage(entries);
  assertEquals(page.indexOf("&lt;b&gt;") < page.indexOf("first"), true);
  assertEquals(page.includes("<b>"), false);
});
