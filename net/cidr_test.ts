import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "./cidr.ts";
import { AddressError, Ip, type IpFamily } from "./ip.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const FAMILIES: IpFamily[] = [4, 6];
const ROUNDS = 500;

function randomCidr(family: IpFamily): Cidr {
  const bytes = crypto.getRandomValues(new Uint8Array(family === 4 ? 4 : 16));
  const ip = Ip.fromBytes(bytes);
  return Cidr.of(ip, Math.floor(Math.random() * (ip.bitLength + 1)));
}

/** Draws an address that shares a random number of leading bits with `ip`. */
function randomNeighbor(ip: Ip): Ip {
  const { ip: random, prefixLength } = randomCidr(ip.family);
  const kept = formatBits(ip).slice(0, prefixLength);
  const drawn = formatBits(random).slice(prefixLength);
  return Ip.fromValue(ip.family, BigInt(`0b${kept}${drawn}`));
}

function formatBits(ip: Ip): string {
  return ip.value.toString(2).padStart(ip.bitLength, "0");
}

// Every row of the two parse tables was confirmed with Go's net.ParseCIDR,
// except that mapped addresses with a short length are refused.

testRows("Cidr.parse() accepts and canonicalizes what Go accepts", [
  ["10.0.0.5/24", "10.0.0.5/24", "10.0.0.0/24"],
  ["10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8"],
  ["0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0"],
  ["255.255.255.255/0", "255.255.255.255/0", "0.0.0.0/0"],
  ["192.0.2.1/32", "192.0.2.1/32", "192.0.2.1/32"],
  ["192.0.2.1/31", "192.0.2.1/31", "192.0.2.0/31"],
  ["172.16.200.9/20", "172.16.200.9/20", "172.16.192.0/20"],
  ["10.0.0.5/024", "10.0.0.5/24", "10.0.0.0/24"],
  ["10.0.0.5/00000000000000000000", "10.0.0.5/0", "0.0.0.0/0"],
  ["::/0", "::/0", "::/0"],
  ["FD00::5/64", "fd00::5/64", "fd00::/64"],
  ["2001:db8::ffff/113", "2001:db8::ffff/113", "2001:db8::8000/113"],
  ["::1/128", "::1/128", "::1/128"],
  ["::1.2.3.4/112", "::102:304/112", "::102:0/112"],
  ["::ffff:1.2.3.4/120", "1.2.3.4/24", "1.2.3.0/24"],
  ["::ffff:102:304/128", "1.2.3.4/32", "1.2.3.4/32"],
  ["::ffff:1.2.3.4/96", "1.2.3.4/0", "0.0.0.0/0"],
], ([text, canonical, network]: [string, string, string]) => {
  const cidr = Cidr.parse(text);
  assertEquals([`${cidr}`, `${cidr.masked()}`], [canonical, network]);
});

testRows<[string, ...string[]]>("Cidr.parse() refuses what Go refuses", [
  ["empty half", "", "/", "/24", "10.0.0.0/", "::/"],
  ["no length", "10.0.0.5", "::1", "localhost"],
  ["length too long", "10.0.0.0/33", "10.0.0.0/99", "::/129"],
  ["length beyond any number", `10.0.0.0/${"9".repeat(400)}`],
  ["sign", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/-0"],
  ["not a decimal", "::/0x40", "::/64.0", "::/6e1", "::/a", "10.0.0.0/٨"],
  ["mask", "10.0.0.0/255.0.0.0"],
  ["blank", " ::/0", "::/0 ", "::/ 0", ":: /0", "10.0.0.0/8\n"],
  ["second slash", "10.0.0.0/8/8", "10.0.0.0//8", "/10.0.0.0/8"],
  ["bad address", "10.0.0/8", "10.0.0.01/8", "10.0.0.256/8", ":::/64"],
  ["zone or brackets", "fe80::1%eth0/64", "fe80::1/64%eth0", "[::1]/64"],
  ["mapped, above 128", "::ffff:1.2.3.4/129"],
  ["mapped, below 96", "::ffff:1.2.3.4/95", "::ffff:1.2.3.4/24"],
], ([, ...texts]) => {
  for (const text of texts) {
    const error = assertThrows(() => Cidr.parse(text), AddressError);
    assertEquals(error.message, `invalid CIDR address: ${text}`);
  }
});

Deno.test("Cidr.toString() is undone by Cidr.parse()", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const cidr = randomCidr(family);
      assertEquals(Cidr.parse(cidr.toString()), cidr);
    }
  }
});

Deno.test("Cidr.of() refuses lengths that do not fit the family", async (t) => {
  const rows: [ip: string, ...prefixLengths: number[]][] = [
    ["10.0.0.0", -1, 33, 128, 1.5, NaN, Infinity],
    ["fd00::", -1, 129, 0.5, NaN, -Infinity],
  ];
  for (const [ip, ...prefixLengths] of rows) {
    await eachRow(t, prefixLengths, (prefixLength) => {
      assertThrows(
        () => Cidr.of(Ip.parse(ip), prefixLength),
        AddressError,
        `invalid CIDR address: ${ip}/${prefixLength}`,
      );
    }, (prefixLength) => `${ip}/${prefixLength}`);
  }
});

testRows(
  "Cidr.host() covers one address",
  [["10.0.0.1", "10.0.0.1/32"], ["fd00::1", "fd00::1/128"]] as const,
  ([ip, text]) => {
    const host = Cidr.host(Ip.parse(ip));
    assertEquals(`${host}`, text);
    assertEquals([host.network, host.last], [host.ip, host.ip]);
  },
  ([, text]) => text,
);

testRows("Cidr knows the borders of its network", [
  ["10.0.0.5/24", "10.0.0.0", "10.0.0.255", "10.0.0.255"],
  ["10.0.0.5/29", "10.0.0.0", "10.0.0.7", "10.0.0.7"],
  ["10.0.0.5/30", "10.0.0.4", "10.0.0.7", "10.0.0.7"],
  ["10.0.0.5/31", "10.0.0.4", "10.0.0.5"],
  ["10.0.0.5/32", "10.0.0.5", "10.0.0.5"],
  ["10.0.0.5/0", "0.0.0.0", "255.255.255.255", "255.255.255.255"],
  ["fd00::5/64", "fd00::", "fd00::ffff:ffff:ffff:ffff"],
  ["fd00::5/127", "fd00::4", "fd00::5"],
  ["::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["::fffe:0:0/95", "::fffe:0:0", "::ffff:255.255.255.255"],
], ([text, network, last, broadcast]: [string, string, string, string?]) => {
  const cidr = Cidr.parse(text);
  assertEquals([`${cidr.network}`, `${cidr.last}`], [network, last]);
  assertEquals(cidr.broadcast?.toString(), broadcast);
  assertEquals([cidr.network.family, cidr.last.family], [
    cidr.family,
    cidr.family,
  ]);
});

Deno.test("Cidr.network and last are the prefix filled with zeros and ones", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const cidr = randomCidr(family);
      const { bitLength } = cidr.ip;
      const prefix = formatBits(cidr.ip).slice(0, cidr.prefixLength);
      assertEquals(formatBits(cidr.network), prefix.padEnd(bitLength, "0"));
      assertEquals(formatBits(cidr.last), prefix.padEnd(bitLength, "1"));
      assertEquals(cidr.hasHostBits, !cidr.ip.equals(cidr.network));
      assertEquals(cidr.masked(), Cidr.of(cidr.network, cidr.prefixLength));
    }
  }
});

testRows("Cidr.contains() holds from the first to the last address", [
  "10.0.0.5/24",
  "10.0.0.5/32",
  "fd00::5/64",
  "fd00::5/128",
], (text) => {
  const { network, last } = Cidr.parse(text);
  const probes = [network.previous(), network, last, last.next()];
  assertEquals(
    probes.map((ip) => Cidr.parse(text).contains(ip)),
    [false, true, true, false],
  );
});

Deno.test("Cidr.contains() compares exactly the prefix bits", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const cidr = randomCidr(family);
      const ip = randomNeighbor(cidr.ip);
      const prefix = formatBits(cidr.ip).slice(0, cidr.prefixLength);
      assertEquals(cidr.contains(ip), formatBits(ip).startsWith(prefix));
    }
  }
});

Deno.test("Cidr relations agree with the numbers at the borders", () => {
  for (const family of FAMILIES) {
    for (let round = 0; round < ROUNDS; round++) {
      const a = randomCidr(family);
      const b = Cidr.of(randomNeighbor(a.ip), randomCidr(family).prefixLength);
      const [first, last] = [a.network.value, a.last.value];
      const [otherFirst, otherLast] = [b.network.value, b.last.value];
      assertEquals(a.containsCidr(b), first <= otherFirst && otherLast <= last);
      assertEquals(a.overlaps(b), first <= otherLast && otherFirst <= last);
      assertEquals(a.overlaps(b), b.overlaps(a));
    }
  }
});

testRows("Cidr relations do not depend on host bits", [
  ["10.0.0.5/24", "10.0.0.9/24", true, true],
  ["10.0.0.5/24", "10.0.0.128/25", true, true],
  ["10.0.0.128/25", "10.0.0.5/24", false, true],
  ["10.0.0.5/25", "10.0.0.128/25", false, false],
  ["0.0.0.0/0", "203.0.113.7/32", true, true],
  ["fd00::/8", "fd12:3456::1/48", true, true],
  ["fd00::1/64", "fd00:0:0:1::/64", false, false],
], ([a, b, contains, overlaps]: [string, string, boolean, boolean]) => {
  assertEquals(Cidr.parse(a).containsCidr(Cidr.parse(b)), contains);
  assertEquals(Cidr.parse(a).overlaps(Cidr.parse(b)), overlaps);
}, ([a, b]) => `${a} and ${b}`);

Deno.test("Cidr relations never hold across families", () => {
  const [all4, all6] = [Cidr.parse("0.0.0.0/0"), Cidr.parse("::/0")];
  assertEquals(all6.contains(all4.ip) || all4.contains(all6.ip), false);
  assertEquals(all6.containsCidr(all4) || all4.containsCidr(all6), false);
  assertEquals(all6.overlaps(all4) || all4.overlaps(all6), false);
  assertEquals(all6.equals(all4) || all4.equals(all6), false);
});

testRows("Cidr.equals() compares address, host bits and length", [
  ["10.0.0.5/24", "10.0.0.5/24", true],
  ["10.0.0.5/24", "10.0.0.6/24", false],
  ["10.0.0.5/24", "10.0.0.5/25", false],
  ["fd00::1/64", "FD00:0::1/64", true],
  ["1.2.3.4/24", "::ffff:1.2.3.4/120", true],
], ([a, b, equal]: [string, string, boolean]) => {
  assertEquals(Cidr.parse(a).equals(Cidr.parse(b)), equal);
}, ([a, b]) => `${a} and ${b}`);

Deno.test("Cidr.toJSON() makes JSON.stringify() write the text", () => {
  const json = JSON.stringify({ dst: Cidr.parse("FD00::5/64") });
  assertEquals(json, '{"dst":"fd00::5/64"}');
});
