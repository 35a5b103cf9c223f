import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { describeSpread, Recording, type Row, type Spread } from "./summary.ts";

testRows("describeSpread() returns median and quartiles", [
  [[7], { median: 7, q1: 7, q3: 7 }],
  [[3, 1], { median: 2, q1: 1.5, q3: 2.5 }],
  [[1 / 3], { median: 0.333, q1: 0.333, q3: 0.333 }],
  // By digits 10 would come before 9.
  [[10, 9, 8, 100], { median: 9.5, q1: 8.75, q3: 32.5 }],
], ([values, spread]: [number[], Spread]) => {
  assertEquals(describeSpread(values), spread);
}, ([values]) => `of ${values}`);

Deno.test("describeSpread() refuses an empty series", () => {
  assertThrows(() => describeSpread([]), RangeError);
});

/** Records wall times of candidates' steps; "ours, DEL" is a step other than ADD. */
function summarize(series: Readonly<Record<string, number[]>>): Row[] {
  const recording = new Recording();
  for (const [name, times] of Object.entries(series)) {
    const [who = "", step = "ADD"] = name.split(", ");
    for (const wallMs of times) recording.add(who, step, { wallMs, cpuMs: 1 });
  }
  const size = { containers: 0, parallel: 4 };
  const cell = { name: "", chain: "ptp", masquerade: false, ...size } as const;
  return recording.summarize("a cell", cell);
}

Deno.test("Recording says what was measured where, as medians and spread", () => {
  assertEquals(summarize({ ours: [500, 400, 600] }), [{
    cell: "a cell",
    chain: "ptp",
    masquerade: false,
    containers: 0,
    parallel: 4,
    step: "ADD",
    who: "ours",
    rounds: 3,
    wallMs: { median: 500, q1: 450, q3: 550 },
    cpuMs: { median: 1, q1: 1, q3: 1 },
    perSecond: 8,
  }]);
});

testRows(
  "Recording compares steps with the Go plugins', else others', else ours",
  [
    ["ours", [undefined]],
    ["ours; go", ["go", undefined]],
    ["ours; ours multus; go; peer", ["go", "go", undefined, "go"]],
    ["ours; ours multus; peer", ["peer", "peer", undefined]],
    ["ours; ours multus", [undefined, "ours"]],
    ["ours; go; ours, DEL", ["go", undefined, undefined]],
  ],
  ([names, compared]: [string, (string | undefined)[]]) => {
    const series = names.split("; ").map((
      name,
    ): [string, number[]] => [name, [1]]);
    const rows = summarize(Object.fromEntries(series));
    assertEquals(rows.map(({ ratio }) => ratio?.to), compared);
  },
);

Deno.test("Recording has the median of ratios, not the ratio of medians", () => {
  const [ours] = summarize({ ours: [10, 20, 90], go: [100, 10, 30] });
  assertEquals(ours?.ratio?.median, 2);
});

Deno.test("Recording drops a candidate", () => {
  const recording = new Recording();
  for (const who of ["ours", "go"]) {
    recording.add(who, "ADD", { wallMs: 1, cpuMs: 1 });
  }
  recording.drop("ours");
  assertEquals(recording.summarize("").map(({ who }) => who), ["go"]);
});
