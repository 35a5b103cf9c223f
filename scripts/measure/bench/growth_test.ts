import { assertEquals, assertStringIncludes } from "@std/assert";
import { drawGrowth, formatGrowth } from "./growth.ts";
import type { Row } from "./summary.ts";

function rowOf(step: string, who: string, containers: number, ms: number): Row {
  const spread = { median: ms, q1: ms, q3: ms, min: ms };
  return {
    cell: `pod, ${containers} containers`,
    chain: "pod",
    containers,
    step,
    who,
    rounds: 1,
    wallMs: spread,
    cpuMs: spread,
  };
}

Deno.test("formatGrowth() compares each contestant with itself on an empty node", () => {
  const rows = [
    rowOf("ADD", "ours", 0, 10),
    rowOf("VERSION", "ours", 0, 5),
    rowOf("DEL", "ours", 0, 8),
    rowOf("ADD", "go", 0, 40),
    rowOf("ADD", "ours", 250, 11),
    rowOf("DEL", "ours", 250, 10),
  ];
  assertEquals(
    formatGrowth(rows),
    `| step | who | 0 | 250 |
| --- | --- | --: | --: |
| ADD | ours | 10.0 | 11.0 (1.10) |
| ADD | go | 40.0 |  |
| DEL | ours | 8.0 | 10.0 (1.25) |
`,
  );
});

Deno.test("drawGrowth() draws a line for each contestant's ADD and DEL", () => {
  const rows = ["ADD", "DEL"].flatMap((step) =>
    [0, 500, 1000].flatMap((containers) => [
      rowOf(step, "ours", containers, 10),
      rowOf(step, "go", containers, 50 + containers / 20),
    ])
  );
  const drawn = drawGrowth(rows, ["a machine"]);
  assertEquals(drawn.match(/<polyline /g)?.length, 4);
  assertStringIncludes(drawn, ">100.0 go<");
});
