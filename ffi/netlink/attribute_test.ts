import { assertEquals, assertThrows } from "@std/assert";
import { type Codec, u16be, u32, u8 } from "../../net/bytes.ts";
import { AddressError, Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import {
  assertDecodeIsTotal,
  assertRoundTrip,
  maybe,
  randomBelow,
  randomBytes,
  randomIp,
  randomMac,
  randomText,
} from "../../tests/_harness/codecs.ts";
import {
  attributeSet,
  bool,
  cstring,
  encodeAttribute,
  flag,
  ip,
  lazily,
  listOf,
  mac,
  markedNested,
  nested,
  raw,
  splitAttributes,
} from "./attribute.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

/** A recursive value. */
interface Tree {
  readonly name?: string | undefined;
  readonly child?: Tree | undefined;
}

const leafSet = attributeSet({ port: [1, u16be], ip: [2, ip] });

/** An attribute set with every codec. */
const treeSet = attributeSet({
  name: [1, cstring],
  leaf: [markedNested(2), nested(leafSet)],
  child: [3, lazily((): Codec<Tree> => treeSet)],
  hops: [4, listOf(markedNested(7), u32)],
  isOn: [5, flag],
  mac: [6, mac],
  bytes: [0x3fff, raw],
});

type TreeValues = Parameters<typeof treeSet.encode>[0];

function randomValues(): TreeValues {
  const length = randomBelow(4);
  return {
    ...maybe("name", () => randomText(10)),
    ...maybe("leaf", () => ({
      ...maybe("port", () => randomBelow(2 ** 16)),
      ...maybe("ip", randomIp),
    })),
    ...maybe("child", randomTree),
    ...maybe("hops", () => Array.from({ length }, () => randomBelow(2 ** 32))),
    ...maybe("isOn", () => true as const),
    ...maybe("mac", randomMac),
    ...maybe("bytes", () => randomBytes(randomBelow(9))),
  };
}

function randomTree(): Tree {
  return {
    ...maybe("name", () => randomText(10)),
    ...maybe("child", randomTree),
  };
}

testRows("payload codecs encode as the kernel does", [
  ["cstring", cstring, "eth0", "6574683000"],
  ["cstring of no characters", cstring, "", "00"],
  ["cstring of several bytes a character", cstring, "é", "c3a900"],
  ["raw", raw, fromHex("0102"), "0102"],
  ["ip of family 4", ip, Ip.parse("10.1.2.3"), "0a010203"],
  [
    "ip of family 6",
    ip,
    Ip.parse("2001:db8::1"),
    "20010db8" + "00000000" + "00000000" + "00000001",
  ],
  ["mac", mac, Mac.parse("02:00:5e:00:53:01"), "02005e005301"],
  ["yes", bool, true, "01"],
  ["no", bool, false, "00"],
  ["flag", flag, true, ""],
  ["listOf", listOf(1, u8), [1, 2], "05000100 01000000 05000100 02000000"],
  ["nested", nested(leafSet), { port: 53 }, "06000100 00350000"],
], ([, codec, value, hex]: [string, Codec<unknown>, unknown, string]) => {
  const bytes = fromHex(hex);
  assertEquals(codec.encode(value), bytes);
  assertEquals<unknown>(codec.decode(bytes), value);
});

testRows("payload codecs decode what they would not encode", [
  ["cstring without NUL", cstring, "657468", "eth"],
  ["cstring with more after the NUL", cstring, "650074", "e"],
  ["mac of a tunnel", mac, "0a010203", undefined],
  ["mac of no bytes", mac, "", undefined],
  ["flag with a payload", flag, "01", true],
  ["listOf, of another type", listOf(1, u8), "05000200 01000000", []],
  ["listOf, marked nested", listOf(1, u8), "05000180 01000000", [1]],
], ([, codec, hex, value]: [string, Codec<unknown>, string, unknown]) => {
  assertEquals(codec.decode(fromHex(hex)), value);
});

Deno.test("ip refuses lengths of neither family", () => {
  assertThrows(() => ip.decode(fromHex("0a0102")), AddressError);
});

Deno.test("raw does not share memory with the received bytes", () => {
  const received = fromHex("01");
  const decoded = raw.decode(received);
  received[0] = 2;
  assertEquals(decoded[0], 1);
});

testRows("attributeSet() encodes rows in order, padded, and no others", [
  ["none", {}, ""],
  ["undefined", { name: undefined, isOn: undefined }, ""],
  [
    "order of rows, not of keys",
    { isOn: true, name: "ab" },
    "07000100 61620000 04000500",
  ],
  ["nested, marked", { leaf: { port: 1 } }, "0c000280 06000100 00010000"],
  ["nested, empty", { leaf: {} }, "04000280"],
  ["within itself", { child: { child: {} } }, "08000300 04000300"],
], ([, value, hex]: [string, TreeValues, string]) => {
  assertEquals(treeSet.encode(value), fromHex(hex));
});

Deno.test("attributeSet() sends back what it does not know, at any depth", () => {
  const hex = "06000100 61000000 " + // name
    "14000200 06000100 00350000 08000900 01020304 " + // leaf, with one unknown
    "06000800 05060000"; // unknown
  const encoded = treeSet.encode(treeSet.decode(fromHex(hex)));
  assertEquals(encoded, fromHex(hex.replace("14000200", "14000280")));
});

testRows("attributeSet() decodes what the kernel may send", [
  ["none", "", {}],
  ["any order", "04000500 05000100 61000000", { name: "a", isOn: true }],
  ["last of repeated ones", "05000100 61000000 05000100 62000000", {
    name: "b",
  }],
  ["nested bit on any row", "05000180 61000000", { name: "a" }],
  ["byte order bit on any row", "05000140 61000000", { name: "a" }],
  ["nested without the bit", "0c000200 06000100 00010000", {
    leaf: { port: 1 },
  }],
  ["unknown ones", "05000900 01000000 04000780", {
    unknown: [
      { type: 9, bytes: fromHex("01") },
      { type: 7, bytes: fromHex("") },
    ],
  }],
], ([, hex, value]: [string, string, unknown]) => {
  assertEquals<unknown>(treeSet.decode(fromHex(hex)), value);
});

Deno.test("attributeSet() returns any values unharmed", () => {
  assertRoundTrip(treeSet, randomValues);
});

Deno.test("attributeSet() is safe with any bytes", () => {
  assertDecodeIsTotal(treeSet.decode, () => treeSet.encode(randomValues()));
});

Deno.test("attributeSet().locate() names what lies at an offset", async (t) => {
  // 0 name, 8 leaf { 12 port, 20 ip }, 28 child { 32 child { 36 name } }
  const bytes = treeSet.encode({
    name: "a",
    leaf: { port: 1, ip: Ip.parse("10.0.0.1") },
    child: { child: { name: "b" } },
  });
  const rows: [name: string, offset: number, expected: string | undefined][] = [
    ["header of an attribute", 0, "name"],
    ["its payload", 4, "name"],
    ["padding", 6, undefined],
    ["header of a nest", 8, "leaf"],
    ["attribute in a nest", 12, "leaf.port"],
    ["second attribute in a nest", 20, "leaf.ip"],
    ["two levels down", 36, "child.child.name"],
    ["before all", -1, undefined],
    ["after all", bytes.length, undefined],
  ];
  await eachRow(t, rows, ([, offset, expected]) => {
    assertEquals(treeSet.locate(bytes, offset), expected);
  });
  await t.step("attribute that no row describes", () => {
    assertEquals(leafSet.locate(fromHex("04000980"), 0), "attribute 9");
  });
});

Deno.test("encodeAttribute() refuses more than 65535 bytes", () => {
  const longest = encodeAttribute(1, randomBytes(0xffff - 4));
  assertEquals(longest.length, 0x10000);
  assertThrows(
    () => encodeAttribute(1, randomBytes(0xffff - 3)),
    RangeError,
    "Cannot encode an attribute of 65536 bytes",
  );
});

Deno.test("splitAttributes() leaves the flags in the upper bits out of types", () => {
  const types = [...splitAttributes(fromHex("04000180 04000240 040003c0"))]
    .map(({ type, start }) => [type, start]);
  assertEquals(types, [[1, 0], [2, 4], [3, 8]]);
});
