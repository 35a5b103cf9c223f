import { assertEquals, assertThrows } from "@std/assert";
import {
  compareVersions,
  isAtLeast,
  isSpecVersion,
  listVersionsFrom,
  parseVersion,
} from "./version.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows(
  "parseVersion() reads one to three numbers",
  [
    ["1.2.3", [1, 2, 3]],
    ["", [0, 1, 0]],
    ["1", [1, 0, 0]],
    ["1.1", [1, 1, 0]],
    ["01.002.3", [1, 2, 3]],
    ["0.-42.0", [0, -42, 0]],
    ["+1.2", [1, 2, 0]],
  ],
  ([text, expected]: [string, [number, number, number]]) =>
    assertEquals(parseVersion(text), expected),
  ([text]) => `"${text}"`,
);

const MALFORMED = [
  "asdfasdf",
  "asdf.",
  ".asdfas",
  "asdf.adsf.",
  "0.",
  "..",
  "1.2.3.4",
  "1.2.3.4.5",
  "v1",
  " 1",
  "1\n",
  "1.0.0-rc1",
  "1.0.f",
  "1e1",
  "1.٣",
  "99999999999999999999.0.0",
];

testRows("parseVersion() refuses malformed versions", MALFORMED, (text) => {
  assertThrows(
    () => parseVersion(text),
    RangeError,
    "Cannot parse version",
  );
}, (text) => JSON.stringify(text));

testRows<[string, string, number]>("compareVersions() orders by number", [
  ["1.2.34", "1.2.14", 1],
  ["2.5.4", "2.4.4", 1],
  ["1.2.3", "0.2.3", 1],
  ["0.4.0", "0.3.1", 1],
  ["0.10.0", "0.9.0", 1],
  ["1.1.0", "1.1.1", -1],
  ["1.2.3", "1.2.3", 0],
  ["1.1", "1.1.0", 0],
  ["", "0.1.0", 0],
], ([left, right, sign]) => {
  assertEquals(Math.sign(compareVersions(left, right)), sign);
  assertEquals(Math.sign(compareVersions(right, left)), 0 - sign);
  assertEquals(isAtLeast(left, right), sign >= 0);
}, ([left, right]) => `"${left}" and "${right}"`);

Deno.test("compareVersions() refuses a malformed version on either side", () => {
  assertThrows(() => compareVersions("1.2.34", "asdadf"), RangeError);
  assertThrows(() => compareVersions("adsfad", "2.5.4"), RangeError);
});

Deno.test("isSpecVersion() wants a released version to the letter", () => {
  const texts = ["0.1.0", "1.1.0", "", "1.1", "1.0.1", "1.1.0 ", "01.1.0"];
  assertEquals(texts.filter(isSpecVersion), ["0.1.0", "1.1.0"]);
});

Deno.test("listVersionsFrom() lists the minimum and everything newer", () => {
  assertEquals(listVersionsFrom("0.3.1"), ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
  assertEquals(listVersionsFrom("0.1.0").length, 7);
});
