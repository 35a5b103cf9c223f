import { assertEquals, assertThrows } from "@std/assert";
import {
  type Codec,
  concat,
  type FixedCodec,
  i32,
  struct,
  u16,
  u16be,
  u32,
  u64,
  u8,
} from "./bytes.ts";
import {
  assertDecodeIsTotal,
  assertLayout,
  assertRoundTrip,
  type Layout,
  randomBelow,
  randomBytes,
} from "../tests/_harness/codecs.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

Deno.test("the integer codecs have the kernel's sizes and byte orders", async (t) => {
  const rows: [string, FixedCodec<number>, value: number, hex: string][] = [
    ["u8", u8, 0xfe, "fe"],
    ["u16", u16, 0x1234, "3412"],
    ["u16be", u16be, 0x1234, "1234"],
    ["u32", u32, 0x89abcdef, "efcdab89"],
    ["i32", i32, -2, "feffffff"],
  ];
  await eachRow(t, rows, ([, codec, value, hex]) => {
    assertEquals(codec.encode(value).toHex(), hex);
    assertEquals(codec.decode(fromHex(hex)), value);
    assertEquals([codec.size, codec.alignment], [
      hex.length / 2,
      hex.length / 2,
    ]);
  });
  await t.step("u64", () => {
    assertEquals(u64.encode(0x0123456789abcdefn).toHex(), "efcdab8967452301");
    assertEquals(u64.decode(fromHex("efcdab8967452301")), 0x0123456789abcdefn);
  });
});

Deno.test("fixed codecs read structs that have grown and refuse shorter ones", () => {
  assertEquals(u16.decode(fromHex("3412 ff")), 0x1234);
  assertThrows(
    () => u32.decode(fromHex("001122")),
    RangeError,
    "Cannot decode 3 bytes as a value of 4",
  );
  const pair = struct({ first: u8, second: u32 });
  assertEquals(pair.decode(fromHex("01 000000 02000000 ff")), {
    first: 1,
    second: 2,
  });
  assertThrows(() => pair.decode(fromHex("01 000000 020000")), RangeError);
});

Deno.test("fixed codecs return any value unharmed", async (t) => {
  const codecs = { u8, u16, u16be, u32 };
  await eachRow(t, Object.entries(codecs), ([, codec]) => {
    assertRoundTrip(codec, () => randomBelow(2 ** (8 * codec.size)));
  });
  await t.step("i32", () => {
    assertRoundTrip(i32, () => randomBelow(2 ** 32) - 2 ** 31);
  });
  await t.step("u64", () => {
    assertRoundTrip(u64, () => BigInt(`0x${randomBytes(8).toHex()}`));
  });
  await t.step("struct", () => {
    const pair = struct({ first: u8, second: u16be, third: u64 });
    assertRoundTrip(pair, () => ({
      first: randomBelow(2 ** 8),
      second: randomBelow(2 ** 16),
      third: BigInt(randomBelow(2 ** 32)),
    }));
  });
});

// Sizes and offsets as gcc reports them on x86-64 and arm64.
Deno.test("struct() lays fields out as C does", async (t) => {
  const rows: [string, FixedCodec<Record<string, number>>, number, Layout][] = [
    [
      "without gaps",
      struct({ a: u8, b: u8, c: u16, d: u32 }),
      8,
      { a: [0, 1], b: [1, 1], c: [2, 2], d: [4, 4] },
    ],
    [
      "gap before a wider field",
      struct({ a: u8, b: u16, c: u8, d: u32 }),
      12,
      { a: [0, 1], b: [2, 2], c: [4, 1], d: [8, 4] },
    ],
    ["gap at the end", struct({ a: u32, b: u8 }), 8, { a: [0, 4], b: [4, 1] }],
    [
      "bytes only",
      struct({ a: u8, b: u8, c: u8 }),
      3,
      { a: [0, 1], b: [1, 1], c: [2, 1] },
    ],
  ];
  await eachRow(t, rows, ([, codec, size, layout]) => {
    assertEquals(codec.size, size);
    assertLayout(codec.encode, layout);
  });
  await t.step("64 bits, and a struct within a struct", () => {
    const inner = struct({ first: u16, second: u32 });
    const outer = struct({ a: u8, b: u64, c: u16, inner, d: u8 });
    assertEquals([outer.size, outer.alignment], [32, 8]);
    const value = { a: 1, b: 2n, c: 3, inner: { first: 4, second: 5 }, d: 6 };
    const hex = "01000000 00000000 02000000 00000000" +
      "03000000 04000000 05000000 06000000";
    assertEquals(outer.encode(value), fromHex(hex));
    assertEquals(outer.decode(fromHex(hex)), value);
  });
});

Deno.test("struct() encodes fields that are left out as zero", () => {
  const codec = struct({ a: u8, b: u64, c: struct({ d: u16 }) });
  assertEquals(codec.encode({}), new Uint8Array(24));
  assertEquals(codec.decode(codec.encode({})), { a: 0, b: 0n, c: { d: 0 } });
});

Deno.test("decoding structs is safe with any bytes", () => {
  const record = struct({ length: u16, type: u16 });
  const decoders: Pick<Codec<unknown>, "decode">[] = [u64, record];
  for (const { decode } of decoders) {
    assertDecodeIsTotal(decode, () => randomBytes(randomBelow(12)));
  }
});

Deno.test("concat() joins byte strings", () => {
  const parts = ["0102", "", "03"].map(fromHex);
  assertEquals(concat(parts).toHex(), "010203");
  assertEquals(concat([]).length, 0);
});

testRows("integer codecs refuse what they have no room for", [
  ["u8: too large", u8, 256],
  ["u8: negative", u8, -1],
  ["u16: too large", u16, 0x1_0000],
  ["u16be: too large", u16be, 0x1_0000],
  ["u32: too large", u32, 0x1_0000_0000],
  ["u32: negative", u32, -5],
  ["u32: a fraction", u32, 1.5],
  ["u32: not a number", u32, NaN],
  ["i32: too large", i32, 0x8000_0000],
  ["i32: too small", i32, -0x8000_0001],
], ([, codec, value]: [string, FixedCodec<number>, number]) => {
  assertThrows(() => codec.encode(value), RangeError, "Cannot encode");
});
