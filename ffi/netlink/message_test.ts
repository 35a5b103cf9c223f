import { assertEquals, assertThrows } from "@std/assert";
import { struct, u32, u8 } from "../../net/bytes.ts";
import {
  assertDecodeIsTotal,
  assertLayout,
  assertRoundTrip,
  maybe,
  randomBelow,
  randomBytes,
} from "../../tests/_harness/codecs.ts";
import { attributeSet, cstring } from "./attribute.ts";
import {
  encodeMessage,
  headerWithAttributes,
  message,
  messageHeader,
  splitMessages,
} from "./message.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

/** A header of five bytes, so that padding precedes the attributes. */
const shortHeader = struct({ family: u8, index: struct({ low: u8 }) });
const attributes = attributeSet({ name: [1, cstring], value: [2, u32] });
const sample = message("TEST_NEW", 77, shortHeader, attributes);

type SampleBody = Parameters<typeof sample.encode>[0];

function randomBody(): SampleBody {
  return {
    header: { family: randomBelow(256), index: { low: randomBelow(256) } },
    attributes: {
      ...maybe("name", () => "abc"),
      ...maybe("value", () => randomBelow(2 ** 32)),
    },
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("messageHeader is laid out as struct nlmsghdr", () => {
  assertEquals(messageHeader.size, 16);
  assertLayout(messageHeader.encode, {
    length: [0, 4],
    type: [4, 2],
    flags: [6, 2],
    sequence: [8, 4],
    portId: [12, 4],
  });
});

testRows("encodeMessage() puts the length before and padding behind", [
  ["no body", "", "10000000 4d00 0506 01000000 00000000"],
  ["whole words", "aabbccdd", "14000000 4d00 0506 01000000 00000000 aabbccdd"],
  ["odd length", "aa", "11000000 4d00 0506 01000000 00000000 aa000000"],
], ([, body, hex]: [string, string, string]) => {
  assertEquals(encodeMessage(77, 0x605, 1, fromHex(body)), fromHex(hex));
});

Deno.test("splitMessages() returns what encodeMessage() made", () => {
  const bodies = ["", "aa", "aabbccdd", "00"];
  const datagram = bodies.map((hex, i) =>
    encodeMessage(i, 0x2, 2 ** 32 - 1, fromHex(hex)).toHex()
  ).join("");
  const split = [...splitMessages(fromHex(datagram))];
  assertEquals(
    split.map((
      { type, flags, sequence, body },
    ) => [type, flags, sequence, body.toHex()]),
    bodies.map((hex, type) => [type, 0x2, 2 ** 32 - 1, hex]),
  );
});

Deno.test("splitMessages() refuses lengths that lead outside", async (t) => {
  const rest = "0000 0000 00000000 00000000";
  const rows: [name: string, hex: string, reason: string][] = [
    ["no length", `00000000 ${rest}`, "of 0 bytes where only 16 remain"],
    [
      "less than a header",
      `0f000000 ${rest}`,
      "of 15 bytes where only 16 remain",
    ],
    [
      "truncated",
      `20000000 ${rest} aabbccdd`,
      "of 32 bytes where only 20 remain",
    ],
    ["as long as can be", `ffffffff ${rest}`, "of 4294967295 bytes"],
  ];
  await eachRow(t, rows, ([, hex, reason]) => {
    assertThrows(
      () => [...splitMessages(fromHex(hex))],
      RangeError,
      `Cannot decode a message ${reason}`,
    );
  });
});

Deno.test("splitMessages() refuses a run that ends in a truncated message", () => {
  const whole = encodeMessage(3, 0, 0, fromHex(""));
  const run = fromHex(whole.toHex() + "ff".repeat(16));
  assertThrows(() => splitMessages(run), RangeError);
  assertEquals(splitMessages(whole).map(({ type }) => type), [3]);
});

Deno.test("message() aligns the attributes behind the fixed header", () => {
  const body = {
    header: { family: 2, index: { low: 3 } },
    attributes: { value: 1 },
  };
  assertEquals(sample.encode(body), fromHex("02030000 08000200 01000000"));
  assertEquals(sample.encode({ header: {} }), fromHex("00000000"));
  assertEquals([sample.name, sample.type], ["TEST_NEW", 77]);
});

Deno.test("message() returns any body unharmed", () => {
  assertRoundTrip(sample, randomBody);
});

Deno.test("message().decode() wants the header, but no padding behind it", () => {
  const body = { header: { family: 1, index: { low: 2 } }, attributes: {} };
  assertEquals(sample.decode(fromHex("0102")), body);
  assertThrows(() => sample.decode(fromHex("01")), RangeError);
});

Deno.test("message().locate() counts from the start of the body", () => {
  const bytes = sample.encode({
    header: {},
    attributes: { name: "a", value: 1 },
  });
  const named = [0, 3, 4, 12, 20].map((at) => sample.locate?.(bytes, at));
  assertEquals(named, [undefined, undefined, "name", "value", undefined]);
});

Deno.test("headerWithAttributes() nests messages in attributes", () => {
  const inner = headerWithAttributes(shortHeader, attributes);
  const outer = attributeSet({ padding: [1, u32], peer: [2, inner] });
  const bytes = outer.encode({
    padding: 0,
    peer: { header: {}, attributes: { value: 1 } },
  });
  // 8 peer, 12 its header, 16 its first attribute.
  assertEquals(
    [8, 12, 16].map((at) => outer.locate(bytes, at)),
    ["peer", "peer", "peer.value"],
  );
});

Deno.test("decoding messages is safe with any bytes", () => {
  assertDecodeIsTotal(sample.decode, () => sample.encode(randomBody()));
  assertDecodeIsTotal((bytes) => [...splitMessages(bytes)], () => {
    const body = randomBytes(randomBelow(40));
    const once = encodeMessage(randomBelow(30), 0, 1, body).toHex();
    return fromHex(once + once);
  });
});
