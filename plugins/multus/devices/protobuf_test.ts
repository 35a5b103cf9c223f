import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  assertDecodeIsTotal,
  assertRoundTrip,
  randomBelow,
  randomBytes,
  randomOf,
  randomText,
} from "../../../tests/_harness/codecs.ts";
import { message, messages, text, texts, type ValueOf } from "./protobuf.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const device = message({ resourceName: text(1), deviceIds: texts(2) });
const pod = message({ name: text(1), devices: messages(3000, device) });

type Pod = ValueOf<typeof pod>;

function drawTexts(): string[] {
  return Array.from({ length: randomBelow(4) }, () => randomText(200));
}

function drawPod(): Pod {
  const devices = Array.from({ length: randomBelow(4) }, () => ({
    resourceName: randomText(9),
    deviceIds: drawTexts(),
  }));
  return { name: randomText(9), devices };
}

function bytes(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

Deno.test("message() round-trips any values", () => {
  assertRoundTrip(pod, drawPod);
});

Deno.test("message() is safe with any bytes", () => {
  assertDecodeIsTotal(
    (sample) => pod.decode(sample),
    () => pod.encode(drawPod()),
  );
});

Deno.test("message() encodes like other programs", async (t) => {
  // Encoded by hand.
  const rows: [name: string, value: Pod, hex: string][] = [
    ["nothing", { name: "", devices: [] }, ""],
    ["a string", { name: "é", devices: [] }, "0a 02 c3a9"],
    [
      "a large field number, an empty message",
      { name: "", devices: [{ resourceName: "", deviceIds: [] }] },
      "c2bb01 00",
    ],
    [
      "an empty string among several",
      { name: "", devices: [{ resourceName: "r", deviceIds: ["", "d"] }] },
      "c2bb01 08 0a0172 1200 120164",
    ],
    [
      "a length of two bytes",
      { name: "n".repeat(300), devices: [] },
      `0a ac02 ${"6e".repeat(300)}`,
    ],
  ];
  await eachRow(t, rows, ([, value, hex]) => {
    assertEquals(pod.encode(value).toHex(), bytes(hex).toHex());
    assertEquals(pod.decode(bytes(hex)), value);
  });
});

testRows<[string, string]>("message() skips unknown fields", [
  ["a varint", "10 ffffffffffffffffff01"],
  ["64 bits", "11 0102030405060708"],
  ["bytes", "12 03 ffffff"],
  ["32 bits", "15 01020304"],
  ["a group", "13 14"],
  ["groups in a group, with fields of known numbers", "13 0a0178 0b 0c 14"],
  ["a known number with another type", "08 01"],
  ["the largest field number", "faffffff0f 01 00"],
], ([, hex]) => {
  const { name } = pod.decode(bytes(`${hex} 0a 01 61 ${hex}`));
  assertEquals(name, "a");
});

Deno.test("message() uses the last occurrence of a string", () => {
  assertEquals(pod.decode(bytes("0a 01 61 0a 01 62")).name, "b");
});

testRows<[string, string, string]>("message() refuses malformed messages", [
  ["a truncated tag", "80", "premature EOF"],
  ["a truncated length", "0a 80", "premature EOF"],
  ["a truncated value", "0a 03 6161", "premature EOF"],
  ["a length without end", "0a ffffffffffffffffff7f 61", "premature EOF"],
  ["a cut varint", "10 ff", "premature EOF"],
  ["a cut fixed64", "11 01020304", "premature EOF"],
  ["a cut fixed32", "15 01", "premature EOF"],
  ["field number 0", "02 00", "field no 0"],
  ["too large a field number", "8280808010 00", "overflows uint32"],
  ["wire type 6", "0e", "wire type 6"],
  ["wire type 7", "0f", "wire type 7"],
  ["a group without an end", "13", "premature EOF"],
  ["a group without a beginning", "14", "wire type 4"],
  ["groups that cross", "13 1b 14 1c", "invalid end group"],
  ["a string that is not UTF-8", "0a 01 ff", "not valid"],
  ["a flaw further inside", "c2bb01 02 0a05", "premature EOF"],
], ([, hex, problem]) => {
  const error = assertThrows(() => pod.decode(bytes(hex)), RangeError);
  assertStringIncludes(error.message, problem);
});

Deno.test("message() refuses every message truncated inside a field", () => {
  const whole = pod.encode({
    name: randomOf("a", "bc"),
    devices: [{ resourceName: "r", deviceIds: ["d".repeat(200)] }],
  });
  const first = pod.encode({ name: pod.decode(whole).name, devices: [] });
  for (let length = 1; length < whole.length; length++) {
    if (length === first.length) continue;
    assertThrows(() => pod.decode(whole.slice(0, length)), RangeError);
  }
});

Deno.test("message() decodes the largest responses", () => {
  const deviceIds = Array.from({ length: 200_000 }, (_, id) => String(id));
  const value = { resourceName: "r", deviceIds };
  assertEquals(device.decode(device.encode(value)).deviceIds.length, 200_000);
  // A megabyte of nested groups must not exhaust the stack.
  const groups = new Uint8Array(2 ** 20).fill(0x13);
  assertThrows(() => device.decode(groups), RangeError, "recursion");
});

Deno.test("message() refuses random bytes or decodes a message", () => {
  for (let round = 0; round < 2000; round++) {
    const sample = randomBytes(randomBelow(12));
    let value: ValueOf<typeof device>;
    try {
      value = device.decode(sample);
    } catch (error) {
      if (error instanceof RangeError) continue;
      throw error;
    }
    assertEquals(device.decode(device.encode(value)), value);
  }
});
