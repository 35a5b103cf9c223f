import { assertEquals } from "@std/assert";
import { findRepeatedKey } from "./settings.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("findRepeatedKey() finds a key that an object has twice", [
  ["none", '{"s":{"a":"1","b":"2"}}', undefined],
  ["twice", '{"s":{"a":"1","b":"2","a":"1"}}', "a"],
  ["spelled by an escape", String.raw`{"s":{"a":"1","\u0061":"2"}}`, "a"],
  ["in another case", '{"s":{"a":"1","A":"2"}}', undefined],
  ["path in another case", '{"S":{"a":1,"a":2}}', "a"],
  ["path itself twice", '{"s":{"a":1},"s":{"a":2}}', "a"],
  ["elsewhere", '{"a":1,"a":2,"t":{"a":1,"a":2},"s":{"b":1}}', undefined],
  ["deeper", '{"t":{"s":{"a":1,"a":2}}}', undefined],
  ["in an inner object", '{"s":{"a":{"b":1,"b":2}}}', undefined],
  ["in a list", '{"s":[{"a":1,"a":2}]}', undefined],
  ["as a value", '{"s":{"a":"b","c":"a","b":["a","a"]}}', undefined],
  ["in a string", String.raw`{"s":{"x":"{\"a\":1,\"a\":2}"}}`, undefined],
  ["after a string with brackets", '{"s":{"x":"}]{\\\\","y":[],"x":1}}', "x"],
  ["no object", "[]", undefined],
], ([, document, repeated]: [string, string, string | undefined]) => {
  assertEquals(findRepeatedKey(document, ["s"]), repeated);
});

Deno.test("findRepeatedKey() looks at any depth, and at long strings", () => {
  const long = "x".repeat(5_000_000);
  const document = `{"l":"${long}","args":{"CNI":{"a":1 , "a" : 2}}}`;
  assertEquals(findRepeatedKey(document, ["args", "cni"]), "a");
  assertEquals(findRepeatedKey('{"a":1,"a":2}', []), "a");
});
