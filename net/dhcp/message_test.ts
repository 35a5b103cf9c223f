import { assertEquals } from "@std/assert";
import { Ip } from "../ip.ts";
import { Mac } from "../mac.ts";
import { decodeMessage, encodeMessage, MessageType } from "./message.ts";
import type { Bytes } from "../bytes.ts";

const MAC = Mac.parse("02:00:5e:00:53:01");

/** Encodes a request, and makes an answer of it. */
function answer(options: ReadonlyMap<number, Bytes> = new Map()): Bytes {
  const bytes = encodeMessage({
    type: MessageType.Discover,
    transaction: 0x01020304,
    mac: MAC,
    wantsBroadcast: true,
    clientAddress: Ip.parse("10.0.0.5"),
    options,
  });
  bytes[0] = 2;
  bytes.set([10, 0, 0, 9], 16);
  return bytes;
}

Deno.test("encodeMessage() lays out a message as RFC 2131 has it", () => {
  const bytes = answer(new Map([[61, Uint8Array.of(0, 65)]]));
  assertEquals(bytes.length, 300);
  assertEquals(
    bytes.subarray(0, 34).toHex(),
    "02010600" + "01020304" + "0000" + "8000" + "0a000005" + "0a000009" +
      "00000000".repeat(2) + MAC.hex,
  );
  assertEquals(
    bytes.subarray(236, 250).toHex(),
    "63825363" + "350101" + "3d020041" + "ff" + "0000",
  );
});

Deno.test("decodeMessage() reads answers to this client, and options in any field", () => {
  // Option 52: they go on in both fields.
  const bytes = answer(new Map([[52, Uint8Array.of(3)]]));
  bytes.set([12, 1, 65, 255], 44);
  bytes.set([15, 1, 66, 255], 108);
  const message = decodeMessage(bytes, MAC);
  assertEquals(message?.transaction, 0x01020304);
  assertEquals(`${message?.yourAddress}`, "10.0.0.9");
  assertEquals(message?.options.toJSON(), {
    12: "41",
    15: "42",
    52: "03",
    53: "01",
  });
});

Deno.test("decodeMessage() passes over anything else", () => {
  const changed = (at: number, value: number): Bytes => {
    const bytes = answer();
    bytes[at] = value;
    return bytes;
  };
  const others = [
    changed(0, 1),
    changed(33, 2),
    changed(236, 0),
    answer().slice(0, 239),
    new Uint8Array(),
  ];
  for (const bytes of others) {
    assertEquals(decodeMessage(bytes, MAC), undefined);
  }
});
