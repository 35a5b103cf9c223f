import { assertEquals, assertThrows } from "@std/assert";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { formatDuration, parseDuration, parseStayTime } from "./duration.ts";

testRows<[string, number]>("parseDuration() reads seconds and Go's durations", [
  ["0", 0],
  ["10", 10_000],
  ["0.5", 500],
  ["0s", 0],
  ["10s", 10_000],
  ["500ms", 500],
  ["2m", 120_000],
  ["1h30m", 5_400_000],
  ["1.5s", 1500],
  ["1m1s1ms", 61_001],
  ["0.0004s", 0],
  ["596h", 2_145_600_000],
  ["720h", 30 * 24 * 3_600_000],
  ["9".repeat(400), Infinity],
], ([text, ms]) => assertEquals(parseDuration(text), ms));

Deno.test("parseDuration() refuses everything else", async (t) => {
  const rows = ["", " ", "s", "10 s", "-1", "-1s", "1x", "x1s", "1e3", "1s "]
    .concat("Infinity", "NaN", "1.s", ".5s", "10S", "1.2.3s");
  await eachRow(t, rows, (text) => {
    assertEquals(parseDuration(text), undefined);
  }, (text) => JSON.stringify(text));
});

testRows<[string, number | string]>("parseStayTime() takes up to ten years", [
  ["10m", 600_000],
  ["720h", 30 * 24 * 3_600_000],
  ["87600h", 10 * 365 * 24 * 3_600_000],
  ["87601h", '"87601h" is longer than ten years'],
  ["9".repeat(400), `"${"9".repeat(400)}" is longer than ten years`],
  ["0s", '"0s" is not a duration such as 10m'],
  ["soon", '"soon" is not a duration such as 10m'],
], ([text, expected]) => {
  if (typeof expected === "number") {
    return assertEquals(parseStayTime(text), expected);
  }
  assertThrows(() => parseStayTime(text), Error, expected);
});

testRows<[number, string]>(
  "formatDuration() uses the largest unit that fits",
  [
    [0, "0ms"],
    [500, "500ms"],
    [1500, "1500ms"],
    [220_000, "220s"],
    [120_000, "2m"],
    [3_600_000, "1h"],
  ],
  ([ms, text]) => assertEquals(formatDuration(ms), text),
  ([, text]) => text,
);
