import { assertEquals } from "@std/assert";
import { hasPrefix } from "./evidence.ts";

Deno.test("hasPrefix() reports whether a text starts with one of the prefixes", () => {
  const ids = ["a", "ab", "abc", "b0", "b1", "zz"];
  const prefixes = ["", "a", "abc", "abcd", "b", "b1", "b2", "z", "zzz", "A"];
  for (const texts of [ids, ids.slice(0, 1), []]) {
    for (const prefix of prefixes) {
      const expected = texts.some((text) => text.startsWith(prefix));
      assertEquals(hasPrefix(texts, prefix), expected, `${texts} ${prefix}`);
    }
  }
});
