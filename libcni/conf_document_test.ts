import { assertEquals, assertThrows } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import type { JsonObject, JsonValue } from "../base/json/json.ts";
import {
  parseDocument,
  readBool,
  readPlugins,
  readText,
  readVersion,
} from "./conf_document.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const PREFIX = "error parsing configuration list: ";

/** Asserts that reading is refused with a message, as an invalid configuration. */
function assertRefused(read: () => unknown, message: string): void {
  const error = assertThrows(read, CniError);
  assertEquals(error.code, 7);
  assertEquals(describeError(error), PREFIX + message);
}

Deno.test("parseDocument() distinguishes other JSON from malformed JSON", async (t) => {
  const rows: [bytes: string, code: number, message: string][] = [
    ["", 6, "Cannot parse it: it is empty"],
    ["{", 6, "Cannot parse it: unexpected end at line 1, column 2"],
    ["{} x", 6, "Cannot parse it: unexpected character"],
    ["\ufeff{}", 6, "Cannot parse it: unexpected character"],
    ["[]", 7, "Cannot decode it: expected an object, got an array"],
    ["5", 7, "Cannot decode it: expected an object, got a number"],
  ];
  await eachRow(t, rows, ([text, code, message]) => {
    const bytes = new TextEncoder().encode(text);
    const error = assertThrows(
      () => parseDocument("configuration list", bytes),
      CniError,
      PREFIX + message,
    );
    assertEquals(error.code, code);
  }, ([text]) => JSON.stringify(text));
  await t.step("null is an empty one", () => {
    const bytes = new TextEncoder().encode("null");
    assertEquals(parseDocument("configuration", bytes), {});
  });
});

Deno.test("readText() accepts only strings", async (t) => {
  assertEquals(readText({ name: "" }, "name"), "");
  assertEquals(readText({ Name: "a" }, "name"), undefined);
  const rows: [JsonValue, string][] = [
    [5, "number"],
    [null, "null"],
    [[], "array"],
    [{}, "object"],
    [true, "boolean"],
  ];
  await eachRow(t, rows, ([name, type]) => {
    assertRefused(
      () => readText({ name }, "name"),
      `invalid name type ${type}`,
    );
  }, ([, type]) => type);
});

testRows("readBool() accepts booleans, and strings in any case", [
  [{}, false],
  [{ disablecheck: true }, false],
  [{ disableCheck: true }, true],
  [{ disableCheck: false }, false],
  [{ disableCheck: "true" }, true],
  [{ disableCheck: "FALSE" }, false],
  [{ disableCheck: "True" }, true],
], ([document, expected]: [JsonObject, boolean]) => {
  assertEquals(readBool(document, "disableCheck"), expected);
}, ([document]) => JSON.stringify(document));

testRows<[JsonValue, string]>("readBool() refuses any other value", [
  ["Yes", `invalid value "yes" for disableGC`],
  ["", `invalid value "" for disableGC`],
  [1, "invalid type number for disableGC"],
  [null, "invalid type null for disableGC"],
  [[true], "invalid type array for disableGC"],
], ([disableGC, message]) => {
  assertRefused(() => readBool({ disableGC }, "disableGC"), message);
}, ([, message]) => message);

Deno.test("readPlugins() accepts a non-empty array, or its absence", async (t) => {
  assertEquals(readPlugins({}), undefined);
  assertEquals(readPlugins({ plugins: [null] }), [null]);
  const rows: [JsonValue, string][] = [
    [[], "no plugins in list"],
    [null, "invalid 'plugins' type null"],
    [{}, "invalid 'plugins' type object"],
  ];
  await eachRow(t, rows, ([plugins, message]) => {
    assertRefused(() => readPlugins({ plugins }), message);
  }, ([, message]) => message);
});

Deno.test("readVersion() chooses the newest supported version", async (t) => {
  const rows: [
    name: string,
    versions: { cniVersion?: string; cniVersions?: string[] },
    expected: string,
  ][] = [
    ["none", {}, ""],
    ["one, unchecked", { cniVersion: "1.2.3" }, "1.2.3"],
    ["a malformed one, unchecked", { cniVersion: "abc" }, "abc"],
    ["the newest", { cniVersions: ["1.1.0", "0.4.0", "1.0.0"] }, "1.1.0"],
    ["not alphabetically", { cniVersions: ["0.3.1", "0.10.0"] }, "0.10.0"],
    ["not a future version", { cniVersions: ["1.0.0", "99.0.0"] }, "1.0.0"],
    ["an empty list", { cniVersions: [] }, ""],
    ["only future versions", { cniVersions: ["99.0.0"] }, ""],
    ["both", { cniVersion: "1.1.0", cniVersions: ["0.4.0"] }, "1.1.0"],
    ["both, the list newer", {
      cniVersion: "0.4.0",
      cniVersions: ["1.0.0"],
    }, "1.0.0"],
    ["both, one of them a future version", {
      cniVersion: "9.0.0",
      cniVersions: ["0.4.0"],
    }, "0.4.0"],
    ["both, only future versions", {
      cniVersion: "9.0.0",
      cniVersions: ["99.0.0"],
    }, "9.0.0"],
    ["an empty string, which means 0.1.0", {
      cniVersion: "9.0.0",
      cniVersions: [""],
    }, ""],
  ];
  await eachRow(
    t,
    rows,
    ([, versions, expected]) => assertEquals(readVersion(versions), expected),
  );
});

testRows("readVersion() refuses versions that cannot be compared", [
  [
    { cniVersions: ["1.0.0", "1.0.f"] },
    `invalid cniVersions entry 1.0.f at index 1: Cannot parse version "1.0.f"`,
  ],
  [
    { cniVersion: "x", cniVersions: [] },
    `invalid cniVersion x: Cannot parse version "x"`,
  ],
  [{ cniVersion: 1 }, "invalid cniVersion type number"],
  [{ cniVersions: "1.0.0" }, "invalid type for cniVersions: string"],
  [{ cniVersions: null }, "invalid type for cniVersions: null"],
  [
    { cniVersions: ["1.0.0", 1] },
    "invalid type for cniVersions index 1: number",
  ],
], ([document, message]: [JsonObject, string]) => {
  assertRefused(() => readVersion(document), message);
}, ([, message]) => message);
