import { assert, assertEquals, assertThrows } from "@std/assert";
import { AddressError } from "./ip.ts";
import { Mac } from "./mac.ts";
import { testRows } from "../tests/_harness/table.ts";

const ROUNDS = 500;

function randomBytes(): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(6));
}

// Every row of the two parse tables was confirmed with Go's net.ParseMAC,
// except that addresses without exactly 6 bytes are refused.

testRows(
  "Mac.parse() accepts and canonicalizes what Go accepts",
  [
    ["00:00:5e:00:53:01", "00:00:5e:00:53:01"],
    ["0A:Bb:CC:dd:EE:fF", "0a:bb:cc:dd:ee:ff"],
    ["00-00-5E-00-53-01", "00:00:5e:00:53:01"],
    ["0000.5e00.5301", "00:00:5e:00:53:01"],
    ["00005E005301", "00:00:5e:00:53:01"],
    ["00:00:00:00:00:00", "00:00:00:00:00:00"],
    ["ff:ff:ff:ff:ff:ff", "ff:ff:ff:ff:ff:ff"],
  ],
  ([text, canonical]: [string, string]) =>
    assertEquals(`${Mac.parse(text)}`, canonical),
);

testRows("Mac.parse() refuses what Go refuses, and other lengths", [
  ["empty or blank", "", " ", " 00:00:5e:00:53:01", "00:00:5e:00:53:01\n"],
  ["too short", "00", "00:00:5e:00:53", "00:00:5e:00:53:", "0000.5e00"],
  ["too short or long, bare", "00005e0053", "00005e00530", "00005e0053010"],
  ["short bytes", "0:0:5e:0:53:1", "000:00:5e:00:53:1", "000.05e0.0530"],
  ["mixed separators", "00:00-5e:00:53:01", "0000.5e00:5301", "00-005e005301"],
  [
    "other separators",
    "00 00 5e 00 53 01",
    "00_00_5e_00_53_01",
    "0000:5e00:5301",
  ],
  ["not hexadecimal", "00:00:5e:00:53:0g", "0x:00:5e:00:53:01", "٠0005e005301"],
  [
    "stray separator",
    ":00:00:5e:00:53:01",
    "00::00:5e:00:53",
    "00.00.5e.00.53.01",
  ],
  ["EUI-64", "02:00:5e:10:00:00:00:01", "0200.5e10.0000.0001"],
  ["InfiniBand", `${"00:".repeat(19)}01`, "0".repeat(40)],
], ([, ...texts]: [string, ...string[]]) => {
  for (const text of texts) {
    const error = assertThrows(() => Mac.parse(text), AddressError);
    assertEquals(error.message, `invalid MAC address: ${text}`);
  }
});

Deno.test("Mac.fromBytes() is the inverse of toBytes()", () => {
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = randomBytes();
    assertEquals(Mac.fromBytes(bytes).toBytes(), bytes);
  }
});

Deno.test("Mac.fromBytes() keeps its own copy", () => {
  const bytes = Uint8Array.of(2, 0, 0, 0, 0, 1);
  const mac = Mac.fromBytes(bytes);
  bytes.fill(0xff);
  mac.toBytes().fill(0xff);
  assertEquals(`${mac}`, "02:00:00:00:00:01");
});

testRows(
  "Mac.fromBytes() refuses other lengths",
  [0, 5, 7, 8, 20],
  (length) => {
    assertThrows(
      () => Mac.fromBytes(new Uint8Array(length)),
      AddressError,
      `invalid MAC address: want 6 bytes, got ${length}`,
    );
  },
  (length) => `${length} bytes`,
);

Deno.test("Mac.toString() is undone by Mac.parse()", () => {
  for (let round = 0; round < ROUNDS; round++) {
    const mac = Mac.fromBytes(randomBytes());
    assertEquals(Mac.parse(mac.toString()), mac);
  }
});

Deno.test("Mac.random() draws distinct local unicast addresses", () => {
  const macs = Array.from({ length: ROUNDS }, () => Mac.random());
  assert(macs.every((mac) => mac.isLocallyAdministered && !mac.isMulticast));
  // By the birthday bound, a repetition has a chance below 2 in a billion.
  assertEquals(new Set(macs.map(String)).size, ROUNDS);
});

Deno.test("Mac.random() varies all other bits", () => {
  let seenSet = 0n;
  let seenClear = 0n;
  for (let round = 0; round < ROUNDS; round++) {
    const value = BigInt(`0x${Mac.random().toBytes().toHex()}`);
    seenSet |= value;
    seenClear |= ~value;
  }
  assertEquals(seenSet.toString(16), "feffffffffff");
  assertEquals(BigInt.asUintN(48, seenClear).toString(16), "fdffffffffff");
});

testRows<[string, boolean, boolean]>("Mac predicates read the first byte", [
  ["00:00:5e:00:53:01", false, false],
  ["01:00:5e:00:00:01", true, false],
  ["02:42:ac:11:00:02", false, true],
  ["33:33:00:00:00:01", true, true],
  ["ff:ff:ff:ff:ff:ff", true, true],
  ["fc:ff:ff:ff:ff:ff", false, false],
], ([text, isMulticast, isLocal]) => {
  const mac = Mac.parse(text);
  assertEquals(mac.isMulticast, isMulticast);
  assertEquals(mac.isLocallyAdministered, isLocal);
});

Deno.test("Mac.equals() ignores the spelling", () => {
  const mac = Mac.parse("0a:bb:cc:dd:ee:ff");
  assertEquals(mac.equals(Mac.parse("0ABB.CCDD.EEFF")), true);
  assertEquals(mac.equals(Mac.parse("0a:bb:cc:dd:ee:fe")), false);
});

Deno.test("Mac.toJSON() makes JSON.stringify() write the text", () => {
  const json = JSON.stringify({ mac: Mac.parse("0A-BB-CC-DD-EE-FF") });
  assertEquals(json, '{"mac":"0a:bb:cc:dd:ee:ff"}');
});
