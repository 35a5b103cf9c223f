import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { chooseOverview, drawBars } from "./charts.ts";
import { formatReport } from "./report.ts";
import { sampleReport, sampleRow, spreadOf } from "./testing.ts";

Deno.test("formatReport() is a document of headings, lists and aligned tables", () => {
  const ratio = { to: "go", median: 2.5 };
  const rows = [
    sampleRow({ cell: "pod, 0 containers", chain: "pod", ratio }),
    sampleRow({ cell: "pod, 0 containers", chain: "pod", who: "go" }),
    sampleRow({ cell: "ptp, 0 containers, 4 at once", perSecond: 12.34 }),
  ];
  assertEquals(
    formatReport(sampleReport(rows, ["Skipped it"])),
    `# What containers cost

- 2026-01-02T03:04Z, Linux 6.1.0 x86_64
- 4 processors (Fast One), 8192 MiB, load 0.3
- ours: v1.0.0, go: v1.1.1, deno: 2.9.6
- Skipped it

## pod (ptp, bandwidth, sbr), 0 containers

| step | who  | wall ms | quartiles | CPU ms | wall/go |
| ---- | ---- | ------: | --------- | -----: | ------: |
| ADD  | ours |    25.0 | 24.0-26.5 |   20.0 |    2.50 |
| ADD  | go   |    25.0 | 24.0-26.5 |   20.0 |         |

## ptp, 0 containers, 4 at once

| step | who  | wall ms | quartiles | CPU ms | per second |
| ---- | ---- | ------: | --------- | -----: | ---------: |
| ADD  | ours |    25.0 | 24.0-26.5 |   20.0 |       12.3 |
`,
  );
});

/** Lists the widths of the bars; the first rectangle is the background. */
function barsOf(svg: string): number[] {
  return [...svg.matchAll(/<rect [^>]*width="([\d.]+)"/g)].slice(1)
    .map(([, width]) => Number(width));
}

Deno.test("drawBars() draws steps in proportion, with names and values", () => {
  const svg = drawBars([
    sampleRow({ wallMs: spreadOf(40) }),
    sampleRow({ wallMs: spreadOf(10), who: "go" }),
  ], ["Linux <6>"]);
  const [ours = 0, go = 0, ...others] = barsOf(svg);
  assertEquals([ours / go, others], [4, []]);
  for (
    const part of [
      ">40.0 ours<",
      ">10.0 go<",
      ">ptp: ADD<",
      ">What a step takes on an empty node (median; line: quartiles)<",
      ">Linux &lt;6&gt;<",
    ]
  ) assertStringIncludes(svg, part);
});

Deno.test("drawBars() shows several at once by how many are done in a second", () => {
  const several = { parallel: 4, perSecond: 40, containers: 50 };
  const svg = drawBars(
    [sampleRow({ wallMs: spreadOf(100), ...several })],
    [],
  );
  assertStringIncludes(svg, ">Several at once: attachments per second<");
  assertStringIncludes(svg, ">40.0 ours<");
  assertStringIncludes(svg, ">What a step takes (median; line: quartiles)<");
  assert(!svg.includes("One at a time"));
});

Deno.test("chooseOverview() has the pods of an empty node", () => {
  const pod = { chain: "pod", who: "ours daemon" };
  const chosen = [
    sampleRow(pod),
    sampleRow({ ...pod, who: "go", step: "DEL, all at once" }),
  ];
  const others = [
    sampleRow({ who: "go" }),
    sampleRow({ ...pod, who: "ours cni" }),
    sampleRow({ ...pod, containers: 50 }),
  ];
  assertEquals(chooseOverview([...chosen, ...others]), chosen);
});
