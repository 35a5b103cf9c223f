import { assertEquals } from "@std/assert";
import { listDuplicateKeys } from "./duplicate_keys.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("listDuplicateKeys() finds repeated keys in one object", async (t) => {
  const rows: [text: string, places: (string | number)[][]][] = [
    ['{"a":1,"b":{"a":2}}', []],
    ['{"a":1,"b":2,"a":3}', [["a"]]],
    ['[{"a":[{},{"x":",","y":"\\"}","x":[]}]}]', [[0, "a", 1, "x"]]],
    ['{"a":{"b":1,"b":2},"c":[1,2,{"d":1,"d":1}],"a":0}', [
      ["a", "b"],
      ["c", 2, "d"],
      ["a"],
    ]],
    ['{"a:":1,"a":[":",":"]}', []],
    ['"a"', []],
  ];
  await eachRow(
    t,
    rows,
    ([text, places]) => assertEquals(listDuplicateKeys(text), places),
  );
});
