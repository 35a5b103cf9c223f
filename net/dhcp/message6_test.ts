import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { Ip } from "../ip.ts";
import { decodeMessage6, encodeMessage6, MessageType6 } from "./message6.ts";
import {
  Code6,
  decodeAssociation,
  decodeOptions6,
  domainsIn,
  encodeAssociation,
  nameServersIn,
  statusIn,
} from "./options6.ts";

const CLIENT = Uint8Array.fromHex("0004aabb"), SERVER = "00030001020000000001";
const IDS = "00010004" + "0004aabb" + "0002000a" + SERVER;
const ADDRESS = "20010db8000100000000000000000100";

Deno.test("encodeMessage6() encodes a request", () => {
  const association = encodeAssociation({
    id: 7,
    addresses: [{ ip: Ip.parse("2001:db8:1::100"), preferred: 0, valid: 0 }],
  });
  const bytes = encodeMessage6({
    type: MessageType6.Request,
    transaction: 0x123456,
    options: [
      [Code6.clientId, CLIENT],
      [Code6.identityAssociation, association],
    ],
  });
  assertEquals(
    bytes.toHex(),
    "03123456" + "00010004" + "0004aabb" +
      "00030028" + "00000007" + "00000000" + "00000000" +
      "00050018" + ADDRESS + "00000000" + "00000000",
  );
});

testRows<[what: string, hex: string, isAnswer: boolean]>(
  "decodeMessage6() accepts answers to the client only",
  [
    ["a reply", "07123456" + IDS, true],
    ["an offer", "02123456" + IDS, true],
    ["a request", "03123456" + IDS, false],
    ["another client's", "07123456" + IDS.replace("aabb", "aabc"), false],
    ["no client's", "07123456" + "0002000a" + SERVER, false],
    ["no server's", "07123456" + "00010004" + "0004aabb", false],
    ["two servers'", "07123456" + IDS + "0002000a" + SERVER, false],
    ["an empty server's", "07123456" + "000100040004aabb" + "00020000", false],
    ["a part of an option", "07123456" + IDS.slice(0, -2), false],
    ["a part of a header", "071234", false],
    ["nothing", "", false],
  ],
  ([, hex, isAnswer]) => {
    const message = decodeMessage6(Uint8Array.fromHex(hex), CLIENT);
    assertEquals(message !== undefined, isAnswer);
    if (message === undefined) return;
    assertEquals(message.transaction, 0x123456);
    assertEquals(message.serverId.toHex(), SERVER);
  },
);

/** Returns an identity association with an address and its times. */
const associationOf = (
  address: string,
  times: string,
  t = "0000003200000050",
): string => "00000007" + t + "00050018" + address + times;

testRows<[what: string, hex: string, addresses: string[] | undefined]>(
  "decodeAssociation() accepts addresses that a container can have",
  [
    [
      "an address",
      associationOf(ADDRESS, "0000003c" + "00000078"),
      ["2001:db8:1::100 60 120"],
    ],
    [
      "an address that ends",
      associationOf(ADDRESS, "00000000" + "00000000"),
      ["2001:db8:1::100 0 0"],
    ],
    [
      "preferred for longer",
      associationOf(ADDRESS, "00000079" + "00000078"),
      [],
    ],
    [
      "link-local",
      associationOf("fe80" + ADDRESS.slice(4), "0000003c00000078"),
      [],
    ],
    [
      "multicast",
      associationOf("ff02" + ADDRESS.slice(4), "0000003c00000078"),
      [],
    ],
    ["loopback", associationOf("0".repeat(31) + "1", "0000003c00000078"), []],
    ["unspecified", associationOf("0".repeat(32), "0000003c00000078"), []],
    [
      "IPv4",
      associationOf("0".repeat(20) + "ffff0a000001", "0000003c00000078"),
      [],
    ],
    [
      "a refused address",
      "00000007" + "0000003200000050" + "0005001e" + ADDRESS +
      "0000003c00000078" + "000d00020002",
      [],
    ],
    [
      "renewal after rebinding",
      associationOf(ADDRESS, "0000003c00000078", "0000005000000032"),
      undefined,
    ],
    ["a part", "0000000700000032", undefined],
    [
      "a part of an address",
      "00000007" + "0000003200000050" + "00050002" + "2001",
      [],
    ],
  ],
  ([, hex, addresses]) => {
    const found = decodeAssociation(Uint8Array.fromHex(hex));
    assertEquals(
      found?.addresses.map(({ ip, preferred, valid }) =>
        `${ip} ${preferred} ${valid}`
      ),
      addresses,
    );
  },
);

Deno.test("options of DHCPv6 have limits", () => {
  const one = "00050018" + ADDRESS + "0000003c00000078";
  const many = Uint8Array.fromHex("000000070000000000000000" + one.repeat(100));
  assertEquals(decodeAssociation(many)?.addresses.length, 16);
  const servers = "0017" + (1600).toString(16).padStart(4, "0") +
    ADDRESS.repeat(100);
  assertEquals(
    nameServersIn(decodeOptions6(Uint8Array.fromHex(servers))).length,
    16,
  );
  const domains = decodeOptions6(
    Uint8Array.fromHex("0018000a" + "01610162000163" + "000161"),
  );
  assertEquals(domainsIn(domains), ["a.b", "c"]);
  const status = decodeOptions6(Uint8Array.fromHex("000d0004" + "00026e6f"));
  assertEquals(statusIn(status), { code: 2, text: "no" });
});
