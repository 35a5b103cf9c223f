import { assertEquals, assertThrows } from "@std/assert";
import { comment, COMMENT_MAX_BYTES } from "./comment.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("comment encodes text with its type, length and a NUL", [
  ["", [0, 1, 0]],
  ["ab", [0, 3, 0x61, 0x62, 0]],
  ["é", [0, 3, 0xc3, 0xa9, 0]],
], ([text, bytes]: [string, number[]]) => {
  assertEquals([...comment.encode(text)], bytes);
  assertEquals(comment.decode(new Uint8Array(bytes)), text);
}, ([text]) => JSON.stringify(text));

Deno.test("comment refuses text that nft could not show", () => {
  const longest = "x".repeat(COMMENT_MAX_BYTES - 1);
  assertEquals(comment.decode(comment.encode(longest)), longest);
  assertThrows(() => comment.encode(`${longest}x`), RangeError, "127");
});

testRows<[string, number[], string]>("comment is found among other user data", [
  ["none", [], ""],
  ["another part before", [2, 1, 9, 0, 2, 0x61, 0], "a"],
  ["only another part", [2, 1, 9], ""],
  ["without a NUL", [0, 1, 0x61], "a"],
  ["longer than what is there", [0, 9, 0x61], "a"],
  ["a lone type", [0], ""],
], ([, bytes, text]) => {
  assertEquals(comment.decode(new Uint8Array(bytes)), text);
});
