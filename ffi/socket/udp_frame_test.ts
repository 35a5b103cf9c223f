import { assertEquals } from "@std/assert";
import type { Bytes } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { decodeDatagram, encodeDatagram } from "./udp_frame.ts";

const DATAGRAM = {
  source: {
    mac: Mac.parse("02:00:5e:00:53:01"),
    ip: Ip.parse("10.0.0.1"),
    port: 67,
  },
  destination: {
    mac: Mac.parse("ff:ff:ff:ff:ff:ff"),
    ip: Ip.parse("255.255.255.255"),
    port: 68,
  },
  payload: Uint8Array.of(1, 2, 3),
};

function changed(at: number, value: number): Bytes {
  const frame = encodeDatagram(DATAGRAM);
  frame[at] = value;
  return frame;
}

Deno.test("decodeDatagram() reads what encodeDatagram() wrote", () => {
  const frame = encodeDatagram(DATAGRAM);
  assertEquals(decodeDatagram(frame, true), DATAGRAM);
  const padded = new Uint8Array(60);
  padded.set(frame);
  assertEquals(decodeDatagram(padded, true), DATAGRAM);
});

Deno.test("decodeDatagram() checks lengths and checksums", () => {
  const frame = encodeDatagram(DATAGRAM);
  for (let length = 0; length < frame.length; length++) {
    assertEquals(decodeDatagram(frame.slice(0, length), true), undefined);
  }
  // The header, its checksum, and a UDP length that is too large.
  for (const at of [18, 24, 38]) {
    assertEquals(decodeDatagram(changed(at, 0xee), true), undefined);
  }
  const damaged = changed(frame.length - 1, 9);
  assertEquals(decodeDatagram(damaged, true), undefined);
  // The kernel has left the checksum to the device.
  const { payload } = decodeDatagram(damaged, false) ?? {};
  assertEquals(payload, Uint8Array.of(1, 2, 9));
});
