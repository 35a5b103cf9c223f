import { assertEquals, assertThrows } from "@std/assert";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import type { Cell } from "./plan.ts";
import {
  describeSpread,
  pairRatios,
  type Series,
  type Spread,
  summarize,
} from "./summary.ts";

testRows("describeSpread() returns median, quartiles and minimum", [
  [[7], { median: 7, q1: 7, q3: 7, min: 7 }],
  [[3, 1], { median: 2, q1: 1.5, q3: 2.5, min: 1 }],
  [[1 / 3], { median: 0.333, q1: 0.333, q3: 0.333, min: 0.333 }],
  [[5, 1, 3], { median: 3, q1: 2, q3: 4, min: 1 }],
  // By digits 10 would come before 9.
  [[10, 9, 8, 100], { median: 9.5, q1: 8.75, q3: 32.5, min: 8 }],
], ([values, spread]: [number[], Spread]) => {
  const before = [...values];
  assertEquals(describeSpread(values), spread);
  assertEquals(values, before);
}, ([values]) => `of ${values}`);

Deno.test("describeSpread() refuses an empty series", () => {
  assertThrows(() => describeSpread([]), RangeError);
});

Deno.test("pairRatios() divides each value by its neighbour", () => {
  assertEquals(pairRatios([2, 9], [4, 3]), [0.5, 3]);
  assertThrows(() => pairRatios([1, 2], [1]), RangeError);
});

const CELL: Cell = {
  name: "ptp, 0 containers",
  chain: "ptp",
  masquerade: false,
  containers: 0,
  parallel: 1,
  verbs: ["ADD"],
};

function series(who: string, wallMs: number[], step = "ADD"): Series {
  const values = { wallMs, cpuMs: wallMs.map((value) => value / 2) };
  return { who, step, values };
}

Deno.test("summarize() says what was measured where, as medians and spread", () => {
  const values = {
    wallMs: [3, 1, 2],
    cpuMs: [1, 1, 4],
    peakKib: [10, 30, 20],
    execs: [2],
    syscalls: [100],
  };
  const one = { who: "ours", step: "ADD", values };
  assertEquals(summarize(CELL.name, [one], CELL), [{
    cell: "ptp, 0 containers",
    chain: "ptp",
    masquerade: false,
    containers: 0,
    parallel: 1,
    step: "ADD",
    who: "ours",
    rounds: 3,
    wallMs: { median: 2, q1: 1.5, q3: 2.5, min: 1 },
    cpuMs: { median: 1, q1: 1, q3: 2.5, min: 1 },
    peakKib: 20,
    execs: 2,
    syscalls: 100,
  }]);
});

Deno.test("summarize() compares with the Go plugins, else with others, else with ours", async (t) => {
  const rows: [contestants: string[], compared: (string | undefined)[]][] = [
    [["ours"], [undefined]],
    [["ours", "go"], ["go", undefined]],
    [["ours", "ours multus", "go", "peer"], ["go", "go", undefined, "go"]],
    [["ours", "ours multus", "peer"], ["peer", "peer", undefined]],
    [["ours", "ours multus"], [undefined, "ours"]],
  ];
  await eachRow(t, rows, ([contestants, compared]) => {
    const rows = summarize("", contestants.map((who) => series(who, [1])));
    assertEquals(rows.map(({ ratio }) => ratio?.to), compared);
  }, ([contestants]) => contestants.join(", "));
});

Deno.test("summarize() has the median of ratios, not the ratio of medians", () => {
  const [ours] = summarize("", [
    series("ours", [10, 20, 90]),
    series("go", [100, 10, 30]),
  ]);
  assertEquals(ours?.ratio?.wallMs.median, 2);
});

Deno.test("summarize() compares steps with the same step only", () => {
  const rows = summarize("", [
    series("ours", [1], "ADD"),
    series("ours", [1], "CHECK"),
    series("ours multus", [1], "CHECK"),
    series("go", [1], "ADD"),
  ]);
  const compared = rows.map(({ ratio }) => ratio?.to);
  assertEquals(compared, ["go", undefined, undefined, undefined]);
});

Deno.test("summarize() tells how many attachments are done in a second", () => {
  const [row] = summarize("", [series("ours", [500])], {
    ...CELL,
    parallel: 4,
  });
  assertEquals(row?.perSecond, 8);
});

Deno.test("summarize() leaves out what was not timed", () => {
  const one = { who: "ours", step: "ADD", values: { peakKib: [1] } };
  assertEquals(summarize("", [one]), []);
});
