import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { AddressError, Ip } from "../../net/ip.ts";
import { testRows } from "../../tests/_harness/table.ts";
import {
  parseExcluded,
  parseLenientIp,
  parseRange,
  rangeIsFull,
  resolveRange,
} from "./range.ts";

testRows<[text: string, ip: string]>(
  "parseLenientIp() drops leading zeros",
  [
    ["10.0.0.1", "10.0.0.1"],
    ["010.000.00.01", "10.0.0.1"],
    ["0.0.0.0", "0.0.0.0"],
    ["fd00::1", "fd00::1"],
  ],
  ([text, ip]) => assertEquals(String(parseLenientIp(text)), ip),
  ([text]) => text,
);

testRows<[text: string, cidr: string, start?: string, end?: string]>(
  "parseRange() reads networks, and their parts",
  [
    ["10.0.0.0/24", "10.0.0.0/24"],
    ["10.0.0.7/24", "10.0.0.0/24"],
    ["010.0.0.0/24", "10.0.0.0/24"],
    ["10.0.0.0/30", "10.0.0.0/30"],
    ["fd00::/126", "fd00::/126"],
    ["10.0.0.5-10.0.0.9/24", "10.0.0.0/24", "10.0.0.5", "10.0.0.9"],
    ["010.0.0.05-10.0.0.009/24", "10.0.0.0/24", "10.0.0.5", "10.0.0.9"],
    ["fd00::5-fd00::9/64", "fd00::/64", "fd00::5", "fd00::9"],
  ],
  ([text, cidr, start, end]) => {
    const range = parseRange(text);
    assertEquals(
      [String(range.cidr), range.start?.toString(), range.end?.toString()],
      [cidr, start, end],
    );
  },
  ([text]) => text,
);

testRows<[text: string, message: string]>(
  "parseRange() refuses malformed ranges",
  [
    ["", "invalid CIDR "],
    ["10.0.0.0", "invalid CIDR 10.0.0.0"],
    ["10.0.0.0/33", "invalid CIDR 10.0.0.0/33"],
    ["10.0.0.0/31", "net mask is too short, subnet 10.0.0.0/31 has no usable"],
    ["fd00::/127", "net mask is too short, subnet fd00::/127 has no usable"],
    ["x-10.0.0.9/24", "invalid range start IP: x"],
    ["10.0.0.5-10.0.0.9", "'10.0.0.9': invalid CIDR address: 10.0.0.9"],
    [
      "10.0.1.5-10.0.0.9/24",
      "invalid range start for CIDR 10.0.0.0/24: 10.0.1",
    ],
    ["10.0.0.0-10.0.0.1/31", "net mask is too short"],
  ],
  ([text, message]) => {
    assertThrows(() => parseRange(text), AddressError, message);
  },
  ([text]) => text,
);

testRows<[text: string, cidr: string]>(
  "parseExcluded() reads networks and addresses",
  [
    ["10.0.0.7/30", "10.0.0.4/30"],
    ["10.0.0.7", "10.0.0.7/32"],
    ["fd00::7", "fd00::7/128"],
  ],
  ([text, cidr]) => assertEquals(String(parseExcluded(text)), cidr),
  ([text]) => text,
);

Deno.test("parseExcluded() refuses malformed addresses and networks", () => {
  for (const text of ["", "x", "10.0.0.0/33"]) {
    const message = "could not parse exclude range, err: ";
    assertThrows(() => parseExcluded(text), AddressError, message);
  }
});

testRows<
  [cidr: string, start: string, end: string, first: string, last: string]
>(
  "resolveRange() omits the network and broadcast addresses",
  [
    ["10.0.0.0/30", "", "", "10.0.0.1", "10.0.0.2"],
    ["fd00::/126", "", "", "fd00::1", "fd00::2"],
    ["10.0.0.0/24", "10.0.0.5", "10.0.0.9", "10.0.0.5", "10.0.0.9"],
    ["10.0.0.0/24", "10.0.0.1", "10.0.0.254", "10.0.0.1", "10.0.0.254"],
    ["10.0.0.0/24", "10.0.0.5", "10.0.0.5", "10.0.0.5", "10.0.0.5"],
    // Ignored: the ends of the network, other networks, and an end below the start.
    ["10.0.0.0/24", "10.0.0.0", "10.0.0.255", "10.0.0.1", "10.0.0.254"],
    ["10.0.0.0/24", "10.0.1.1", "fd00::1", "10.0.0.1", "10.0.0.254"],
    ["10.0.0.0/24", "10.0.0.9", "10.0.0.5", "10.0.0.9", "10.0.0.254"],
  ],
  ([cidr, start, end, first, last]) => {
    const range = resolveRange(Cidr.parse(cidr), {
      start: start ? Ip.parse(start) : undefined,
      end: end ? Ip.parse(end) : undefined,
    });
    assertEquals([String(range.first), String(range.last)], [first, last]);
    assertEquals(range.prefixLength, Cidr.parse(cidr).prefixLength);
  },
  String,
);

Deno.test("resolveRange() refuses a network without addresses", () => {
  const message = "net mask is too short, subnet 10.0.0.0/31";
  const cidr = Cidr.parse("10.0.0.0/31");
  assertThrows(() => resolveRange(cidr), AddressError, message);
});

Deno.test("rangeIsFull() names the excluded networks", () => {
  const excluded = ["10.0.0.4/30", "10.0.0.9"].map(parseExcluded);
  const range = resolveRange(Cidr.parse("10.0.0.0/24"), { excluded });
  const { code, message } = rangeIsFull(range, 0);
  assertEquals([code, message], [
    11,
    "Could not allocate IP in range: ip: 10.0.0.1 / - 10.0.0.254 / range: " +
    "10.0.0.0/24 / excludeRanges: [10.0.0.4/30 10.0.0.9]",
  ]);
});
