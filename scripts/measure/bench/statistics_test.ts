import { assertEquals, assertThrows } from "@std/assert";
import { describeSpread, pairRatios, type Spread } from "./statistics.ts";
import { testRows } from "../../../tests/_harness/table.ts";

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
