import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { chooseOverview, drawBars } from "./charts.ts";
import { sampleRow } from "./report_sample.ts";

/** Lists the widths of the bars; the first rectangle is the background. */
function barsOf(svg: string): number[] {
  return [...svg.matchAll(/<rect [^>]*width="([\d.]+)"/g)].slice(1)
    .map(([, width]) => Number(width));
}

function spread(
  median: number,
): { median: number; q1: number; q3: number; min: number } {
  return { median, q1: median, q3: median, min: median };
}

Deno.test("drawBars() draws bars in proportion, with names and values", () => {
  const svg = drawBars([
    sampleRow({ wallMs: spread(40) }),
    sampleRow({ who: "go", wallMs: spread(10) }),
  ], ["Linux <6>"]);
  const [ours = 0, go = 0] = barsOf(svg);
  assertEquals(ours / go, 4);
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

Deno.test("drawBars() says how many containers there are, if there are any", () => {
  const cell = "ptp, 50 containers";
  const svg = drawBars([
    sampleRow(),
    sampleRow({ cell, containers: 50 }),
  ], []);
  assertStringIncludes(svg, ">ptp, 0 containers: ADD<");
  assertStringIncludes(svg, ">ptp, 50 containers: ADD<");
  assertStringIncludes(svg, ">What a step takes (median; line: quartiles)<");
});

Deno.test("drawBars() leaves out the plugins of a chain, not those that start alone", () => {
  const svg = drawBars([
    sampleRow(),
    sampleRow({ step: "ADD ptp" }),
    sampleRow({ step: "DEL, all at once" }),
    // deno-lint-ignore no-explicit-any -- such rows have no chain
    { ...sampleRow({ step: "VERSION ptp" }), chain: undefined } as any,
  ], []);
  assertEquals(barsOf(svg).length, 3);
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
    sampleRow({ ...pod, step: "CHECK" }),
    sampleRow({ ...pod, containers: 50 }),
  ];
  assertEquals(chooseOverview([...chosen, ...others]), chosen);
});

Deno.test("drawBars() shows several at once by how many are done in a second", () => {
  const svg = drawBars([
    sampleRow({ wallMs: spread(100), parallel: 4, perSecond: 40 }),
  ], []);
  assertStringIncludes(svg, ">Several at once: attachments per second<");
  assertStringIncludes(svg, ">40.0 ours<");
  assert(!svg.includes("One at a time"));
});
