import { assertEquals } from "@std/assert";
import { testRows } from "../tests/_harness/table.ts";
import { decodeDomainNames, isDomainName } from "./domain_names.ts";

testRows<[hex: string, names: string[]]>("decodeDomainNames() reads names", [
  ["01610162000163" + "00", ["a.b", "c"]],
  ["0161000000", ["a"]],
  ["", []],
  ["00", []],
  ["0161", []],
  ["016100" + "0562", ["a"]],
  ["016100" + "c000", ["a"]],
  ["016100" + "010a00" + "016200", ["a"]],
], ([hex, names]) => {
  assertEquals(decodeDomainNames(Uint8Array.fromHex(hex)), names);
}, ([hex]) => hex);

testRows<[text: string, isName: boolean]>(
  "isDomainName() refuses other texts",
  [
    ["example.test", true],
    ["example.test.", true],
    ["_tcp.a-1", true],
    ["", false],
    [".", false],
    ["a..b", false],
    ["a b", false],
    ["a\nnameserver 192.0.2.1", false],
    ["é", false],
    ["a".repeat(64), false],
    ["a.".repeat(127), false],
  ],
  ([text, isName]) => assertEquals(isDomainName(text), isName),
  ([text]) => JSON.stringify(text.slice(0, 20)),
);
