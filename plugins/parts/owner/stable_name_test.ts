import { assertEquals, assertMatch } from "@std/assert";
import { shortenWithHash, stableName } from "./stable_name.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test("stableName() hashes with FNV-1a", async (t) => {
  // The hash's published test vectors, truncated to the length of a name.
  const rows: [text: string, want: string][] = [
    ["", "cbf29ce484222325"],
    ["a", "af63dc4c8601ec8c"],
    ["foobar", "85944171f73967e8"],
  ];
  await eachRow(t, rows, ([text, want]) => {
    assertEquals(stableName("", text), want.slice(0, 15));
    assertEquals(stableName("veth", text), `veth${want.slice(0, 11)}`);
  }, ([text]) => JSON.stringify(text));
});

Deno.test("stableName() differs between attachments", () => {
  const names = [
    stableName("veth", "net", "container", "eth0"),
    stableName("veth", "net", "container", "eth1"),
    stableName("veth", "net1", "container", "eth0"),
    stableName("veth", "net", "containe", "reth0"),
    stableName("veth", "netcontainer", "eth0"),
  ];
  assertEquals(new Set(names).size, names.length);
  for (const name of names) assertMatch(name, /^veth[0-9a-f]{11}$/);
});

Deno.test("shortenWithHash() returns different texts within the limit", async (t) => {
  const rows: [name: string, text: string, maxBytes: number, want: string][] = [
    ["short", "net1", 20, "net1"],
    ["as long as may be", "a".repeat(20), 20, "a".repeat(20)],
    ["one byte more", "a".repeat(21), 20, "aaa~4c37049181f75a98"],
    ["two bytes a character", "é".repeat(11), 20, "é~6f8fab3988fc2809"],
    ["surrogates", "😀".repeat(6), 20, "~61f42c801212e355"],
  ];
  await eachRow(
    t,
    rows,
    ([, text, maxBytes, want]) =>
      assertEquals(shortenWithHash(text, maxBytes), want),
  );
  await t.step("the ends differ", () => {
    const texts = Array.from({ length: 100 }, (_, i) => "x".repeat(30) + i);
    const short = texts.map((text) => shortenWithHash(text, 20));
    assertEquals(new Set(short).size, texts.length);
  });
});
