import { assertEquals } from "@std/assert";
import { sha512 } from "./sha512.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("sha512() hashes texts as FIPS 180-4 has it", [
  ["", "cf83e1357eefb8bd", "a538327af927da3e"],
  ["abc", "ddaf35a193617aba", "2a9ac94fa54ca49f"],
], async ([text, start, end]: [string, string, string]) => {
  const hash = await sha512(text);
  assertEquals([hash.length, hash.slice(0, 16)], [128, start]);
  assertEquals(hash.slice(-16), end);
}, ([text]) => `"${text}"`);
