import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { emptyResult } from "../result/result.ts";
import { parsePluginResult, readPluginResult } from "./plugin_result.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function read(stdout: string, cniVersion: string): JsonObject {
  return readPluginResult({ stdout, result: undefined }, cniVersion).document;
}

Deno.test("parsePluginResult() believes the version that a result names", async (t) => {
  const rows: [string, { readonly cniVersion?: unknown }, string, string][] = [
    ["the same", { cniVersion: "1.1.0" }, "1.1.0", "1.1.0"],
    ["another one", { cniVersion: "1.0.0" }, "1.1.0", "1.0.0"],
    ["one of another family", { cniVersion: "0.2.0" }, "1.1.0", "0.2.0"],
    ["an unknown one", { cniVersion: "9.8.7" }, "1.1.0", "9.8.7"],
    ["none", {}, "1.0.0", "1.0.0"],
    ["an empty one", { cniVersion: "" }, "1.0.0", "1.0.0"],
    ["null", { cniVersion: null }, "1.0.0", "1.0.0"],
    ["a number", { cniVersion: 1 }, "1.0.0", "1.0.0"],
    ["an object", { cniVersion: {} }, "1.0.0", "1.0.0"],
    ["none, and none in the configuration", {}, "", "0.1.0"],
  ];
  const others = { ips: [{ address: "10.1.2.3/24" }], unknown: { key: null } };
  await eachRow(t, rows, ([, named, configVersion, expected]) => {
    const text = `\n${JSON.stringify({ ...others, ...named })}\n`;
    assertEquals(parsePluginResult(text, configVersion), {
      ...others,
      cniVersion: expected,
    });
  });
  await t.step("null is an empty result", () => {
    assertEquals(parsePluginResult("null", "1.1.0"), { cniVersion: "1.1.0" });
  });
});

testRows("parsePluginResult() refuses anything but an object", [
  ["nothing", "", "Cannot parse result: it is empty"],
  ["white space", "\n", "Cannot parse result: it is empty"],
  ["an array", "[]", "Cannot decode result: expected an object, got an array"],
  ["a text", '"a"', "Cannot decode result: expected an object, got a string"],
  ["false", "false", "Cannot decode result: expected an object"],
  ["a log line before it", "log\n{}", "Cannot parse result: "],
  ["two documents", "{}{}", "Cannot parse result: "],
], ([, stdout, problem]: [string, string, string]) => {
  const error = assertThrows(
    () => parsePluginResult(stdout, "1.1.0"),
    CniError,
    `failed to unmarshal raw result: ${problem}`,
  );
  assertEquals(error.code, 6);
});

testRows("readPluginResult() stamps a result that names no version", [
  ["missing", '{"ips":[]}', "1.0.0", "1.0.0"],
  ["empty", '{"cniVersion":""}', "0.4.0", "0.4.0"],
  ["no text", '{"cniVersion":1}', "0.3.1", "0.3.1"],
  ["null", "null", "1.1.0", "1.1.0"],
  ["neither", '{"ip4":{"ip":"10.0.0.1/8"}}', "", "0.1.0"],
  ["its own", '{"cniVersion":"1.0.0"}', "1.1.0", "1.0.0"],
  ["of another shape", '{"cniVersion":"0.4.0"}', "1.1.0", "0.4.0"],
], ([, stdout, asked, version]: [string, string, string, string]) => {
  assertEquals(read(stdout, asked)["cniVersion"], version);
});

Deno.test("readPluginResult() keeps the document, unknown keys and all", () => {
  const stdout = '{"cniVersion":"1.1.0","x":{"y":[1,null]},"ips":[]}';
  assertEquals(read(stdout, "1.1.0"), JSON.parse(stdout));
});

Deno.test("readPluginResult() takes a result that is at hand rather than reading it", () => {
  const result = emptyResult();
  const stdout = '{"cniVersion":"1.1.0"}';
  assertStrictEquals(
    readPluginResult({ stdout, result }, "1.1.0").result,
    result,
  );
});

testRows("readPluginResult() throws for a malformed result", [
  ["nothing", "", 6, "failed to unmarshal raw result: "],
  ["a list", "[]", 6, "failed to unmarshal raw result: "],
  ["a text", '"x"', 6, "failed to unmarshal raw result: "],
  ["a log before it", "log\n{}", 6, "failed to unmarshal raw result: "],
  ["an error after it", "{}{}", 6, "failed to unmarshal raw result: "],
  ["an unknown version", '{"cniVersion":"9.9.9"}', 1, "unsupported CNI"],
  ["a wrong address", '{"ips":[{"address":"x"}]}', 6, "ips[0].address"],
], ([, stdout, code, text]: [string, string, number, string]) => {
  const error = assertThrows(() => read(stdout, "1.1.0"), CniError, text);
  assertEquals(error.code, code);
});
