import { assertEquals, assertMatch } from "@std/assert";
import { chooseColors, chooseTicks, element, picture, textAt } from "./svg.ts";
import { testRows } from "../../../tests/_harness/table.ts";

Deno.test("element() escapes, and rounds to a tenth", () => {
  assertEquals(
    element("g", { a: 'x"<&>', b: 1.26 }),
    '<g a="x&quot;&lt;&amp;&gt;" b="1.3"/>',
  );
  assertEquals(textAt([1, 2], "a < b"), '<text x="1" y="2">a &lt; b</text>');
});

Deno.test("picture() is a document with a title", () => {
  const text = picture({ width: 10, height: 20, title: "A & B" }, ["<g/>"]);
  assertMatch(
    text,
    /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" width="10" /,
  );
  assertMatch(text, /<title>A &amp; B<\/title>/);
  assertMatch(text, /<g\/>\n<\/svg>\n$/);
});

testRows(
  "chooseTicks() chooses round numbers that hold the most",
  [
    [10, [0, 2, 4, 6, 8, 10]],
    [87, [0, 20, 40, 60, 80, 100]],
    [0.7, [0, 0.2, 0.4, 0.6, 0.8]],
    [2633, [0, 1000, 2000, 3000]],
    [1, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  ],
  ([most, ticks]: [number, number[]]) => assertEquals(chooseTicks(most), ticks),
);

Deno.test("chooseColors() gives a name one colour", () => {
  const colors = chooseColors(["ours", "go", "ours"]);
  assertEquals([...colors.keys()], ["ours", "go"]);
  assertEquals(new Set(colors.values()).size, 2);
});
