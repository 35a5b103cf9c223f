import { assertEquals, assertThrows } from "@std/assert";
import { struct, u16, viewOf } from "../../net/bytes.ts";
import { assertDecodeIsTotal } from "../../tests/_harness/codecs.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { alignRecord, splitRecords } from "./records.ts";

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

const record = struct({ length: u16, type: u16 });

/** Splits bytes between others that do not belong to the run. */
function splitBytes(bytes: Uint8Array): [start: number, payload: string][] {
  const around = new Uint8Array([...BEFORE, ...bytes, 0xff, 0xff, 0xff, 0xff]);
  const from = BEFORE.length;
  const run = [from, from + bytes.length] as const;
  return splitRecords(record, viewOf(around), run, "a record")
    .map(({ start, payloadStart, end }) => [
      start - from,
      around.subarray(payloadStart, end).toHex(),
    ]);
}

const BEFORE = fromHex("0c000900 aaaa");

/** Returns how splitRecords() splits bytes written in hex. */
function split(hex: string): [start: number, payload: string][] {
  return splitBytes(fromHex(hex));
}

testRows(
  "splitRecords() yields each record of a run",
  [
    ["no bytes", "", []],
    ["fewer than a header", "040000", []],
    ["a header alone", "04000100", [[0, ""]]],
    ["padding between", "05000100 aa000000 06000100 bbcc0000", [
      [0, "aa"],
      [8, "bbcc"],
    ]],
    ["padding cut off at the end", "05000100 aa", [[0, "aa"]]],
    ["rest too short for a header", "04000100 0400", [[0, ""]]],
  ],
  ([, hex, expected]: [string, string, ReturnType<typeof split>]) =>
    assertEquals(split(hex), expected),
);

testRows("splitRecords() refuses lengths that lead outside", [
  ["zero, which would never end", "00000100 aabbccdd", 0, 8],
  ["shorter than the header", "03000100 aabbccdd", 3, 8],
  ["longer than the run", "09000100 aabbccdd", 9, 8],
  ["second record", "04000100 ffff0100", 0xffff, 4],
], ([, hex, length, left]: [string, string, number, number]) => {
  assertThrows(
    () => split(hex),
    RangeError,
    `Cannot decode a record of ${length} bytes where only ${left} remain`,
  );
});

Deno.test("splitRecords() is safe with any bytes", () => {
  assertDecodeIsTotal(
    splitBytes,
    () => fromHex("05000100 aa000000 08000200 aabbccdd"),
  );
});

Deno.test("alignRecord() rounds up to four bytes", () => {
  assertEquals([0, 1, 3, 4, 5].map(alignRecord), [0, 4, 4, 4, 8]);
});
