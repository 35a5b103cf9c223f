import { assertEquals } from "@std/assert";
import {
  durationOf,
  Forecast,
  formatSeconds,
  readDurations,
  writeDurations,
} from "./durations.ts";
import { testRows } from "../../tests/_harness/table.ts";

Deno.test("durations of what takes long are kept, and read again", () => {
  const path = new URL(`file://${Deno.makeTempFileSync()}`);
  try {
    writeDurations(path, {
      whole: 100.4,
      files: { "a_test.ts": 5.2, "b_test.ts": 4.9, "c_test.ts": 70.6 },
    });
    const durations = readDurations(path);
    assertEquals(durations, {
      whole: 100,
      files: { "c_test.ts": 71, "a_test.ts": 5 },
    });
    assertEquals(durationOf(durations, "a_test.ts"), 5);
    assertEquals(durationOf(durations, "b_test.ts"), 1);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("readDurations() reads the tree's before the first run", () => {
  const { whole, files } = readDurations(new URL("file:///nowhere/at.json"));
  assertEquals(whole > 60, true);
  assertEquals(Object.values(files).every((seconds) => seconds >= 5), true);
});

Deno.test("Forecast takes the recorded time first, then this run's pace", () => {
  const durations = { whole: 100, files: { "a": 90, "b": 9 } };
  const forecast = new Forecast(durations, ["a", "b", "c"], 0);
  const seconds = (running: [string, number][], nowMs: number): number =>
    Math.round(forecast.secondsLeft(new Map(running), nowMs));
  assertEquals(seconds([["a", 0], ["b", 0]], 1000), 98);
  // 59 of 100 are done after 50 s.
  assertEquals(seconds([["a", 0], ["b", 0]], 50_000), 35);
  forecast.end("a");
  // It took longer than before; no part counts for more than it was.
  assertEquals(seconds([["b", 0]], 200_000), 2);
  forecast.end("b");
  forecast.end("c");
  assertEquals(seconds([], 201_000), 0);
});

testRows<[number, string]>("formatSeconds() is as exact as it can be", [
  [0, "10 s"],
  [31, "40 s"],
  [89, "90 s"],
  [90, "2 min"],
  [480, "8 min"],
], ([seconds, text]) => assertEquals(formatSeconds(seconds), text));
