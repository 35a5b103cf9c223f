import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../error.ts";
import { type JsonObject, parseJson } from "./json.ts";
import { encodeJson } from "./json_bytes.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** Parses a document and encodes it again. */
function rewrite(document: string): string {
  return new TextDecoder().decode(
    encodeJson(parseJson(document) as JsonObject),
  );
}

testRows("encodeJson() writes the bytes that Go would", [
  [
    "keys sorted at every depth, arrays as they are",
    ` { "b": [ {"d": 1, "c": 2}, true ], "a": {"f": null, "e": ""} } `,
    `{"a":{"e":"","f":null},"b":[{"c":2,"d":1},true]}`,
  ],
  [
    "keys that look like integers sorted as texts",
    `{"9":1,"10":2,"-":3,"A":4,"a":5}`,
    `{"-":3,"10":2,"9":1,"A":4,"a":5}`,
  ],
  [
    "keys sorted as their UTF-8",
    `{"\u{1f600}":1,"\uff5e":2,"\ue000":3,"é":4}`,
    `{"é":4,"\ue000":3,"\uff5e":2,"\u{1f600}":1}`,
  ],
  [
    "keys that objects have by nature",
    `{"toString":1,"__proto__":{"x":2},"constructor":3}`,
    `{"__proto__":{"x":2},"constructor":3,"toString":1}`,
  ],
  [
    "markup, controls and lone surrogates",
    String.raw`{"a":"<>&\u2028\u2029\u0001\b\f\u007f/\ud800é"}`,
    '{"a":"\\u003c\\u003e\\u0026\\u2028\\u2029\\u0001\\b\\f\u007f/\ufffdé"}',
  ],
  ["markup in keys", `{"<a>":1}`, String.raw`{"\u003ca\u003e":1}`],
  [
    "numbers as floats",
    "[12345678901234567890, 1.0, 1e21, 1e-7, 1e20, 1E5, -0, 0.000001]",
    "[12345678901234567000,1,1e+21,1e-7,100000000000000000000,100000,-0,0.000001]",
  ],
], ([, document, expected]: [string, string, string]) => {
  const wrapped = (text: string): string => `{"x":${text}}`;
  assertEquals(rewrite(wrapped(document)), wrapped(expected));
});

Deno.test("encodeJson() writes every document that parseJson() reads", () => {
  const document = `${'{"a":['.repeat(500)}1${"]}".repeat(500)}`;
  assertEquals(rewrite(document), document);
});

Deno.test("encodeJson() refuses a number that would become null", () => {
  const error = assertThrows(() => rewrite(`{"mtu":[1e400]}`), CniError);
  assertEquals(error.code, 7);
  assertEquals(error.message, "Cannot encode JSON: a number is too large");
});
