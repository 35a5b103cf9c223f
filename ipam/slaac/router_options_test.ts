import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { RouterDns } from "./router_options.ts";

/** 2001:db8::53 and fe80::53. */
const SERVER = "20010db8000000000000000000000053";
const ON_LINK = "fe800000000000000000000000000053";
/** example.test and lab, padded. */
const NAMES = "076578616d706c65047465737400" + "036c616200" + "0000000000";

testRows<[hex: string, nameservers: string[], search: string[]]>(
  "RouterDns.take() reads the DNS options of RFC 8106",
  [
    [`1903000000000e10${SERVER}`, ["2001:db8::53"], []],
    [`1905000000000e10${SERVER}${ON_LINK}`, ["2001:db8::53"], []],
    [`1f04000000000e10${NAMES}`, [], ["example.test", "lab"]],
    // No lifetime, and so no server.
    [`1903000000000000${SERVER}`, [], []],
    // Another option, and options that are cut off, empty, or as long as nothing.
    [`0303000000000e10${SERVER}`, [], []],
    [`1903000000000e10${SERVER.slice(2)}`, [], []],
    ["1901000000000e10", [], []],
    [`1900000000000e10${SERVER}`, [], []],
    ["19", [], []],
    ["", [], []],
    // Names that would be lines of their own, or go beyond the option.
    ["1f02000000000e10" + "050a61206220" + "0000", [], []],
    ["1f02000000000e10" + "3f61000000000000", [], []],
    ["1f02000000000e10" + "c000000000000000", [], []],
  ],
  ([hex, nameservers, search]) => {
    const dns = new RouterDns();
    dns.take(Uint8Array.fromHex(hex));
    assertEquals([dns.nameservers, dns.search], [nameservers, search]);
  },
  ([hex]) => hex.slice(0, 40),
);

Deno.test("RouterDns keeps a limited number of servers, each once", () => {
  const dns = new RouterDns();
  for (let index = 0; index < 100; index++) {
    const server = SERVER.slice(0, 30) + (index % 50 + 16).toString(16);
    dns.take(Uint8Array.fromHex(`1903000000000e10${server}`));
  }
  assertEquals(dns.nameservers.length, 16);
  dns.take(Uint8Array.fromHex(`1903000000000000${SERVER.slice(0, 30)}10`));
  assertEquals(dns.nameservers.length, 15);
});
