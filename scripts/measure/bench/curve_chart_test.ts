import { assertEquals, assertStringIncludes } from "@std/assert";
import { drawCurves } from "./curve_chart.ts";
import { sampleRow } from "./report_sample.ts";

Deno.test("drawCurves() has a panel for each step, and in it a curve for each contestant", () => {
  const rows = ["ADD", "ADD ptp"].flatMap((step) =>
    [0, 50, 2000].flatMap((containers) =>
      ["ours", "go"].map((who) => sampleRow({ step, containers, who }))
    )
  );
  const svg = drawCurves(rows, ["Linux 6"]);
  const count = (tag: string): number => svg.split(`<${tag} `).length - 1;
  assertEquals([count("polyline"), count("circle")], [4, 12]);
  for (const label of ["ptp: ADD", "ptp: ADD ptp", "ours", "go", "2000"]) {
    assertStringIncludes(svg, `>${label}<`);
  }
  // It would overlap the 0.
  assertEquals(svg.includes(">50<"), false);
});

Deno.test("drawCurves() leads from left to right, and up where it takes longer", () => {
  const spread = { median: 0, q1: 0, q3: 0, min: 0 };
  const rows = [[0, 10], [100, 20], [200, 40]].map(
    ([containers = 0, median = 0]) =>
      sampleRow({ containers, wallMs: { ...spread, median } }),
  );
  const [, points = ""] = /points="([^"]*)"/.exec(drawCurves(rows, [])) ?? [];
  const [a, b, c] = points.split(" ").map((point) =>
    point.split(",").map(Number)
  );
  const differences = [[a, b], [b, c]].map(([from = [], to = []]) =>
    to.map((value, at) => value - (from[at] ?? 0))
  );
  assertEquals(differences, [[180, -50], [180, -100]]);
});
