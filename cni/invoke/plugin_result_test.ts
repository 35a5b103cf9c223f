import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../error.ts";
import { parsePluginResult } from "./plugin_result.ts";

Deno.test("parsePluginResult() believes the version that a result names", async (t) => {
  const rows: [
    name: string,
    named: { readonly cniVersion?: unknown },
    configVersion: string,
    expected: string,
  ][] = [
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
  for (const [name, named, configVersion, expected] of rows) {
    await t.step(name, () => {
      const text = `\n${JSON.stringify({ ...others, ...named })}\n`;
      assertEquals(parsePluginResult(text, configVersion), {
        ...others,
        cniVersion: expected,
      });
    });
  }
  await t.step("null is an empty result", () => {
    assertEquals(parsePluginResult("null", "1.1.0"), { cniVersion: "1.1.0" });
  });
});

Deno.test("parsePluginResult() refuses what is no object", async (t) => {
  const rows: [name: string, stdout: string, problem: string][] = [
    ["nothing", "", "Cannot parse result: it is empty"],
    ["white space", "\n", "Cannot parse result: it is empty"],
    [
      "an array",
      "[]",
      "Cannot decode result: expected an object, got an array",
    ],
    ["a text", '"a"', "Cannot decode result: expected an object, got a string"],
    ["false", "false", "Cannot decode result: expected an object"],
    ["a log line before it", "log\n{}", "Cannot parse result: "],
    ["two documents", "{}{}", "Cannot parse result: "],
  ];
  for (const [name, stdout, problem] of rows) {
    await t.step(name, () => {
      const error = assertThrows(
        () => parsePluginResult(stdout, "1.1.0"),
        CniError,
        `failed to unmarshal raw result: ${problem}`,
      );
      assertEquals(error.code, 6);
    });
  }
});
