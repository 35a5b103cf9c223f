import { assert, assertEquals, assertThrows } from "@std/assert";
import { AddressError, Ip, type IpFamily, unlessNoAddress } from "./ip.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const FAMILIES: IpFamily[] = [4, 6];
const ROUNDS = 500;

/**
 * Draws an address with frequent zero groups, like real addresses. It is never
 * IPv4-mapped, because its text would be parsed as IPv4.
 */
function randomIp(family: IpFamily): Ip {
  const bytes = crypto.getRandomValues(new Uint8Array(family === 4 ? 4 : 16));
  const keep = crypto.getRandomValues(new Uint8Array(8));
  const ip = Ip.fromBytes(bytes.map((b, i) => (keep[i >> 1] ?? 0) & 1 && b));
  return ip.value >> 32n === 0xffffn ? randomIp(family) : ip;
}

function compareNumbers(a: bigint, b: bigint): number {
  return Number(a > b) - Number(a < b);
}

/** Lists the predicates that are true. */
function listKinds(ip: Ip): string {
  const kinds = {
    isUnspecified: ip.isUnspecified,
    isLoopback: ip.isLoopback,
    isMulticast: ip.isMulticast,
    isLinkLocal: ip.isLinkLocal,
    isGlobalUnicast: ip.isGlobalUnicast,
  };
  return Object.entries(kinds).filter(([, is]) => is).map(([kind]) => kind)
    .join();
}

// Every row of the two parse tables was confirmed with Go's net.ParseIP.

testRows("Ip.parse() accepts and canonicalizes what Go accepts", [
  ["0.0.0.0", "0.0.0.0", 4],
  ["192.0.2.1", "192.0.2.1", 4],
  ["255.255.255.255", "255.255.255.255", 4],
  ["::", "::", 6],
  ["::1", "::1", 6],
  ["1::", "1::", 6],
  ["2001:DB8::A", "2001:db8::a", 6],
  ["2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1", 6],
  ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", 6],
  ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0", 6],
  ["::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8", 6],
  ["1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8", 6],
  ["64:ff9b::192.0.2.33", "64:ff9b::c000:221", 6],
  ["1:2:3:4:5:6:7.8.9.10", "1:2:3:4:5:6:708:90a", 6],
  ["1:2:3:4:5::7.8.9.10", "1:2:3:4:5:0:708:90a", 6],
  ["::1.2.3.4", "::102:304", 6],
  ["::ffff:1.2.3.4", "1.2.3.4", 4],
  ["::FFFF:102:304", "1.2.3.4", 4],
  ["0:0:0:0:0:ffff:0:0", "0.0.0.0", 4],
  ["::fffe:1.2.3.4", "::fffe:102:304", 6],
  ["::1:ffff:1.2.3.4", "::1:ffff:102:304", 6],
], ([text, canonical, family]: [string, string, IpFamily]) => {
  const ip = Ip.parse(text);
  assertEquals([ip.toString(), ip.family], [canonical, family]);
});

testRows<[string, ...string[]]>("Ip.parse() refuses what Go refuses", [
  ["empty or blank", "", " ", " 1.2.3.4", "1.2.3.4 ", "::1\n", "\t::1"],
  ["too few octets", "1", "1.2.3", "1.2.3.", ".2.3.4", "."],
  ["too many octets", "1.2.3.4.5", "1.2.3.4."],
  ["empty octet", "1..2.3", "1.2..4", "1.2.3.4..", "..."],
  ["octet above 255", "256.0.0.1", "1.2.3.1000", "1.2.3.99999999999999"],
  ["leading zero", "01.2.3.4", "1.2.3.04", "1.2.3.00", "010.0.0.1"],
  ["not decimal", "0x10.0.0.1", "1e1.0.0.1", "+1.2.3.4", "1.2.3.-4"],
  ["not ASCII digits", "1.2.3.٣", "１.2.3.4", "::１"],
  ["one number", "3232235777", "0x7f000001", "localhost"],
  ["too few groups", "1:2:3:4:5:6:7", "1:2", "ffff"],
  [
    "too many groups",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
  ],
  ["idle ::", "1:2:3:4::5:6:7:8", "1:2:3:4:5:6::1.2.3.4"],
  ["several ::", "1::2::3", "::1::", ":::", "::::", "1:::2"],
  [
    "single colon at an end",
    ":",
    ":1::",
    "1:2:3:4:5:6:7:",
    "::1:",
    ":1:2:3:4:5:6:7",
  ],
  ["long group", "12345::", "::00001", "0db80::1"],
  ["not hexadecimal", "::g", "::0x1", "::-1", "::1_0"],
  ["misplaced IPv4", "1.2.3.4::", "::1.2.3.4:5", "1:2.3.4.5::", "1.2.3.4:1::"],
  ["too long with IPv4", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:6:7::1.2.3.4"],
  ["too short with IPv4", "1:2:3:4:5:1.2.3.4", "1:1.2.3.4"],
  ["bad embedded IPv4", "::1.2.3", "::1.2.3.256", "::01.2.3.4", "::a.2.3.4"],
  ["zone", "fe80::1%eth0", "fe80::1%", "1.2.3.4%eth0", "%eth0"],
  ["brackets or port", "[::1]", "[::1]:80", "1.2.3.4:80"],
  ["prefix length", "1.2.3.4/24", "::1/64"],
], ([, ...texts]) => {
  for (const text of texts) {
    const error = assertThrows(() => Ip.parse(text), AddressError);
    assertEquals(error.message, `invalid IP address: ${text}`);
    assertEquals(error.name, "AddressError");
  }
});

Deno.test("Ip.toString() shortens as RFC 5952 says", async (t) => {
  const rows: [rule: string, text: string, canonical: string][] = [
    ["4.1 leading zeros go", "2001:0db8::0001:000a", "2001:db8::1:a"],
    ["4.2.1 as much as possible", "2001:db8:0::0:2:1", "2001:db8::2:1"],
    ["4.2.2 never one group", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["4.2.3 the longest run", "2001:0:0:1:0:0:0:1", "2001:0:0:1::1"],
    ["4.2.3 the longest run, first", "2001:0:0:0:1:0:0:1", "2001::1:0:0:1"],
    ["4.2.3 the first of equals", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["4.2.3 a run at the start", "0:0:1:1:1:1:1:1", "::1:1:1:1:1:1"],
    ["4.2.3 a run at the end", "1:1:1:1:1:1:0:0", "1:1:1:1:1:1::"],
    ["4.3 lower case", "2001:DB8:ABCD:EF::1", "2001:db8:abcd:ef::1"],
  ];
  await eachRow(
    t,
    rows,
    ([, text, canonical]) => assertEquals(`${Ip.parse(text)}`, canonical),
  );
  await t.step("5 dotted tail of a mapped address", () => {
    assertEquals(`${Ip.fromValue(6, 0xffff_0102_0304n)}`, "::ffff:1.2.3.4");
  });
});

Deno.test("Ip.toString() is undone by Ip.parse()", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const ip = randomIp(family);
      assertEquals(Ip.parse(ip.toString()), ip);
    }
  }
});

Deno.test("Ip.toString() shortens only the first of the longest runs", () => {
  for (let round = 0; round < ROUNDS; round++) {
    const ip = randomIp(6);
    const full = ip.toBytes().toHex()
      .replaceAll(/(.{4})(?=.)/g, "$1:").replaceAll(/\b0{1,3}/g, "");
    const run = (full.match(/\b0(:0)+\b/g) ?? [])
      .reduce((first, next) => next.length > first.length ? next : first, "-");
    assertEquals(`${ip}`, full.replace(RegExp(`(^|:)${run}(:|$)`), "::"));
  }
});

Deno.test("Ip.fromBytes() is the inverse of toBytes()", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const ip = randomIp(family);
      assertEquals(ip.toBytes().length * 8, ip.bitLength);
      assertEquals(Ip.fromBytes(ip.toBytes()), ip);
    }
  }
});

Deno.test("Ip.fromBytes() reads network byte order", () => {
  assertEquals(`${Ip.fromBytes(Uint8Array.of(192, 0, 2, 1))}`, "192.0.2.1");
  assertEquals(
    Ip.parse("::1:2").toBytes().slice(-4),
    Uint8Array.of(0, 1, 0, 2),
  );
});

Deno.test("Ip.fromBytes() keeps a mapped address in family 6", () => {
  const mapped = Uint8Array.fromHex("00000000000000000000ffff01020304");
  const ip = Ip.fromBytes(mapped);
  assertEquals([ip.family, ip.toString()], [6, "::ffff:1.2.3.4"]);
  assertEquals(ip.toBytes(), mapped);
});

testRows(
  "Ip.fromBytes() refuses other lengths",
  [0, 3, 5, 15, 17, 20],
  (length) => {
    assertThrows(
      () => Ip.fromBytes(new Uint8Array(length)),
      AddressError,
      `invalid IP address: want 4 or 16 bytes, got ${length}`,
    );
  },
  (length) => `${length} bytes`,
);

Deno.test("Ip.fromValue() accepts exactly the family's space", async (t) => {
  for (const family of FAMILIES) {
    const size = 1n << (family === 4 ? 32n : 128n);
    await t.step(`IPv${family}`, () => {
      assertEquals(Ip.fromValue(family, 0n).isUnspecified, true);
      assertEquals(Ip.fromValue(family, size - 1n).value, size - 1n);
      for (const value of [-1n, size, -size]) {
        assertThrows(
          () => Ip.fromValue(family, value),
          AddressError,
          "outside",
        );
      }
    });
  }
});

testRows<[string, bigint, string]>("Ip.add() moves across octets and groups", [
  ["10.0.0.255", 1n, "10.0.1.0"],
  ["10.0.0.0", -1n, "9.255.255.255"],
  ["10.0.0.7", 0n, "10.0.0.7"],
  ["2001:db8::ffff", 1n, "2001:db8::1:0"],
  ["2001:db8::", 1n << 64n, "2001:db8:0:1::"],
  ["::", (1n << 128n) - 1n, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
], ([start, offset, end]) => {
  assertEquals(Ip.parse(start).add(offset), Ip.parse(end));
  assertEquals(Ip.parse(end).add(-offset), Ip.parse(start));
}, ([start, offset]) => `${start} + ${offset}`);

testRows("Ip.next() and previous() throw at the ends of the space", [
  ["0.0.0.0", "255.255.255.255"],
  ["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
], ([first, last]: [string, string]) => {
  assertThrows(() => Ip.parse(first).previous(), AddressError, "outside");
  assertThrows(() => Ip.parse(last).next(), AddressError, "outside");
  assertEquals(Ip.parse(first).next().previous(), Ip.parse(first));
});

Deno.test("Ip.next() stays in family 6 at the border of the mapped range", () => {
  const ip = Ip.parse("::fffe:ffff:ffff").next();
  assertEquals([ip.family, ip.toString()], [6, "::ffff:0.0.0.0"]);
});

Deno.test("Ip.compare() and equals() agree with the numbers", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const [a, b] = [randomIp(family), randomIp(family)];
      assertEquals(a.compare(b), compareNumbers(a.value, b.value));
      assertEquals(a.equals(b), a.value === b.value);
      assertEquals(a.compare(Ip.fromBytes(a.toBytes())), 0);
      assert(a.equals(Ip.fromBytes(a.toBytes())));
    }
  }
});

Deno.test("Ip.compare() puts IPv4 before IPv6", () => {
  const sorted = ["9.0.0.1", "10.0.0.1", "255.255.255.255", "::", "::1", "a::"];
  const shuffled = [4, 1, 5, 0, 3, 2].map((i) => Ip.parse(sorted[i] ?? ""));
  assertEquals(shuffled.sort((a, b) => a.compare(b)).map(String), sorted);
  assertEquals(Ip.fromValue(4, 1n).equals(Ip.fromValue(6, 1n)), false);
});

// Every row was confirmed with the methods of Go's net.IP.
testRows<[string, ...string[]]>("Ip predicates classify as Go does", [
  ["isUnspecified", "0.0.0.0", "::", "::ffff:0.0.0.0"],
  ["isLoopback", "127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"],
  ["isMulticast", "224.0.0.0", "239.255.255.255", "ff00::", "ff02::1"],
  ["isLinkLocal", "169.254.0.0", "169.254.255.255", "fe80::", "febf:ffff::"],
  [
    "isGlobalUnicast",
    "0.0.0.1",
    "10.0.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "::2",
  ],
  [
    "isGlobalUnicast",
    "169.253.255.255",
    "169.255.0.0",
    "223.255.255.255",
    "240.0.0.0",
  ],
  [
    "isGlobalUnicast",
    "255.255.255.254",
    "fe7f:ffff::",
    "fec0::",
    "fd00::1",
    "feff::",
  ],
  ["", "255.255.255.255"],
], ([kind, ...texts]) => {
  for (const text of texts) assertEquals(listKinds(Ip.parse(text)), kind);
}, ([kind, ...texts]) => `${kind || "no kind"}: ${texts.join(", ")}`);

testRows("Ip predicates look through a mapped address", [
  "0.0.0.0",
  "127.0.0.1",
  "224.0.0.1",
  "169.254.1.1",
  "10.0.0.1",
], (text) => {
  const ipv4 = Ip.parse(text);
  const mapped = Ip.fromValue(6, 0xffff_0000_0000n + ipv4.value);
  assertEquals(listKinds(mapped), listKinds(ipv4));
});

Deno.test("unlessNoAddress() answers undefined for what is not an address", () => {
  assertEquals(unlessNoAddress(() => Ip.parse("::1")), Ip.parse("::1"));
  assertEquals(unlessNoAddress(() => Ip.parse("1.2.3")), undefined);
  assertThrows(
    () =>
      unlessNoAddress(() => {
        throw new RangeError("another");
      }),
    RangeError,
    "another",
  );
});

Deno.test("Ip.toJSON() makes JSON.stringify() write the text", () => {
  const json = JSON.stringify({
    ip: Ip.parse("2001:DB8::1"),
    gw: [Ip.parse("::ffff:10.0.0.1")],
  });
  assertEquals(json, '{"ip":"2001:db8::1","gw":["10.0.0.1"]}');
});
