import { assert, assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { describeSyntaxError, findSyntaxError } from "./json_syntax.ts";

testRows<[text: string, expected: string]>(
  "describeSyntaxError() has the place, and nothing of the text",
  [
    ["", "unexpected end at line 1, column 1"],
    ['{"name":', "unexpected end at line 1, column 9"],
    ["{} x", "unexpected character at line 1, column 4"],
    ['{"a":1,}', "unexpected character at line 1, column 8"],
    ['{\n  "mtu": tru\n}', "unexpected character at line 2, column 10"],
    [
      "root:x:0:0:root:/root:/bin/bash\n",
      "unexpected character at line 1, column 1",
    ],
    ["\ufeff{}", "unexpected character at line 1, column 1"],
    ['["a\tb"]', "unexpected character at line 1, column 4"],
    ['["a\\x"]', "unexpected character at line 1, column 4"],
    ['["a', "unexpected end at line 1, column 4"],
    ["[1\n,\n2 3]", "unexpected character at line 3, column 3"],
    ['{"a":1 "b":2}', "unexpected character at line 1, column 8"],
    ["{a:1}", "unexpected character at line 1, column 2"],
    ["[01]", "unexpected character at line 1, column 3"],
    ["]", "unexpected character at line 1, column 1"],
    ["[}", "unexpected character at line 1, column 2"],
  ],
  ([text, expected]) => assertEquals(describeSyntaxError(text), expected),
  ([text]) => JSON.stringify(text),
);

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

Deno.test("findSyntaxError() agrees with JSON.parse()", () => {
  const seed =
    '{"a": [1, -2.5e+3, true, null, "x\\u00e9\\n"], "b": {"": {}}, "c": []}';
  const letters = [
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "0",
    "-",
    "e",
    ".",
    " ",
    "\n",
    "t",
    "\u0001",
  ];
  let state = 1;
  const random = (count: number): number => {
    state = (state * 48271) % 2147483647;
    return state % count;
  };
  let refused = 0;
  for (let run = 0; run < 20_000; run++) {
    let text = seed;
    for (let change = random(3); change >= 0; change--) {
      const at = random(text.length);
      const length = random(3);
      text = text.slice(0, at) + (letters[random(letters.length)] ?? "") +
        text.slice(at + length);
    }
    const offset = findSyntaxError(text);
    assertEquals(offset === undefined, isJson(text), text);
    if (offset !== undefined) refused++;
  }
  assert(refused > 1000 && refused < 20_000, `${refused}`);
});

Deno.test("findSyntaxError() gets through deep and long texts", () => {
  assertEquals(findSyntaxError("[".repeat(1_000_000)), 1_000_000);
  assertEquals(findSyntaxError(`"${"x".repeat(1_000_000)}`), 1_000_001);
});
