import { assertEquals } from "@std/assert";
import { Recording } from "./recording.ts";
import { testRows } from "../../../tests/_harness/table.ts";

Deno.test("Recording.list() has contestants beside each other, by step", () => {
  const recording = new Recording();
  for (const who of ["ours", "go"]) {
    for (const step of ["ADD", "DEL"]) {
      recording.add(who, step, { wallMs: 1 });
    }
  }
  recording.add("ours", "ADD ptp", { wallMs: 1 });
  const order = recording.list().map(({ who, step }) => `${step} ${who}`);
  assertEquals(order, [
    "ADD ours",
    "ADD go",
    "DEL ours",
    "DEL go",
    "ADD ptp ours",
  ]);
});

Deno.test("Recording.add() keeps the order of rounds, by measure", () => {
  const recording = new Recording();
  recording.add("ours", "ADD", { wallMs: 3, cpuMs: 2 });
  recording.add("ours", "ADD", { wallMs: 1, cpuMs: 4 });
  recording.add("ours", "ADD", { peakKib: 5 });
  const [series] = recording.list();
  assertEquals(series?.values, { wallMs: [3, 1], cpuMs: [2, 4], peakKib: [5] });
});

testRows("Recording.drop() forgets a contestant or a verb", [
  [undefined, ["go ADD", "go ADD ptp", "go ADDITION"]],
  ["ADD", ["go ADD", "go ADD ptp", "ours ADDITION", "go ADDITION"]],
  [
    "DEL",
    [
      "ours ADD",
      "go ADD",
      "ours ADD ptp",
      "go ADD ptp",
      "ours ADDITION",
      "go ADDITION",
    ],
  ],
], ([verb, left]: [string | undefined, string[]]) => {
  const recording = new Recording();
  for (const who of ["ours", "go"]) {
    for (const step of ["ADD", "ADD ptp", "ADDITION"]) {
      recording.add(who, step, { wallMs: 1 });
    }
  }
  recording.drop("ours", verb);
  const series = recording.list().map(({ who, step }) => `${who} ${step}`);
  assertEquals(series, left);
}, ([verb]) => verb ?? "all");
