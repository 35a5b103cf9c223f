import { assertEquals } from "@std/assert";
import { listDuplicateKeys } from "./duplicate_keys.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows(
  "listDuplicateKeys() finds repeated keys in one object",
  [
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
  ],
  ([text, places]: [string, (string | number)[][]]) =>
    assertEquals(listDuplicateKeys(text), places),
);
