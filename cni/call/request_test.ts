import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { type Command, COMMANDS } from "./args.ts";
import { CniError } from "../../base/error.ts";
import type { Plugin } from "../plugin.ts";
import {
  checkVersion,
  decodeConfigVersion,
  isCommand,
  readRequest,
} from "./request.ts";
import { netConf } from "../config/types.ts";
import { testRows } from "../../tests/_harness/table.ts";

const utf8 = new TextEncoder();

/** Runs what must throw; answers what the runtime would be shown. */
function failureOf(
  run: () => unknown,
): { code: number; msg: string; details?: string } {
  const { cniVersion: _, ...failure } = assertThrows(run, CniError)
    .toObject("");
  return failure;
}

Deno.test("isCommand() knows the commands to the letter", () => {
  assertEquals(COMMANDS.filter((command) => !isCommand(command)), []);
  const others = ["VERSION", "NOPE", "add", "ADD ", "", "constructor"];
  assertEquals(others.filter(isCommand), []);
});

testRows("readRequest() reads the name, and keeps the bytes", [
  ["a name", `{"name":"net1"}`],
  ["a key in another case", `{"Name":"net1"}`],
  ["the last of two", `{"name":"%","name":"net1"}`],
  ["the last of two spellings", `{"name":"%","NAME":"net1"}`],
  ["white space around it", ` \r\n{"name":"net1"}\t\n`],
  ["unknown keys", `{"name":"net1","__proto__":{"name":"%"}}`],
  [
    "a version of another type, which is not its business",
    `{"name":"net1","cniVersion":1}`,
  ],
], ([, stdin]: [string, string]) => {
  const bytes = utf8.encode(stdin);
  const request = readRequest(() => bytes);
  assertStrictEquals(request.bytes, bytes);
  assertEquals(request.document, JSON.parse(stdin));
  assertEquals(request.name, "net1");
});

testRows("readRequest() refuses malformed configurations", [
  ["white space", " \n", 6],
  ["no JSON", "{{{", 6],
  ["a document cut short", `{"name":"net1"`, 6],
  ["two documents", `{"name":"net1"}{"name":"net1"}`, 6],
  ["a NUL after it", `{"name":"net1"}\0`, 6],
  ["a byte order mark", `\ufeff{"name":"net1"}`, 6],
  ["UTF-16", Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0), 6],
  ["Latin-1", Uint8Array.of(0x7b, 0x22, 0xfc, 0x22, 0x3a, 0x31, 0x7d), 6],
  ["a text", `"net1"`, 6],
  ["a number", `5`, 6],
  ["a name with a NUL", `{"name":"net1\\u0000"}`, 7],
], ([, stdin, code]: [string, string | Uint8Array, number]) => {
  const bytes = typeof stdin === "string" ? utf8.encode(stdin) : stdin;
  const failure = failureOf(() => readRequest(() => bytes));
  assertEquals(failure.code, code, failure.msg);
  const start = code === 6
    ? "error unmarshall network config: "
    : failure.details === undefined
    ? "missing network name"
    : "invalid characters found in network name";
  assertEquals(failure.msg.slice(0, start.length), start);
}, ([name, , code]) => `${name}: ${code}`);

testRows("decodeConfigVersion() reads the version, parsed or not", [
  ["a version", `{"cniVersion":"1.0.0"}`, "1.0.0"],
  ["a malformed one", `{"cniVersion":"x"}`, "x"],
  ["a key in another case", `{"CNIVERSION":"1.0.0"}`, "1.0.0"],
  ["no version", `{}`, "0.1.0"],
  ["an empty one", `{"cniVersion":""}`, "0.1.0"],
  ["null", `{"cniVersion":null}`, "0.1.0"],
  ["null after one", `{"cniVersion":"1.0.0","CniVersion":null}`, "1.0.0"],
  ["the last", `{"cniVersion":"x","CniVersion":"1.0.0"}`, "1.0.0"],
  ["no configuration", `null`, "0.1.0"],
], ([, config, cniVersion]: [string, string, string]) => {
  assertEquals(decodeConfigVersion(config), cniVersion);
  assertEquals(decodeConfigVersion(utf8.encode(config)), cniVersion);
  const parsed = JSON.parse(config) ?? {};
  assertEquals(decodeConfigVersion(parsed), cniVersion);
});

testRows("decodeConfigVersion() says what it was about when it fails", [
  ["{{{", "Cannot parse it: "],
  ["[]", "expected an object"],
  ["5", "expected an object"],
  [`{"cniVersion":1}`, "cniVersion: expected a string"],
], ([config, problem]: [string, string]) => {
  const { code, msg } = failureOf(() => decodeConfigVersion(config));
  assertEquals(code, 6);
  const start = `decoding version from network config: ${problem}`;
  assertEquals(msg.slice(0, start.length), start);
});

/** A plugin that serves some versions and does nothing. */
function pluginFor(...versions: string[]): Plugin {
  return { name: "test", versions, configSchema: () => netConf({}) };
}

Deno.test("checkVersion() accepts what plugin and command allow", async (t) => {
  const rows: [Command, config: string, plugin: string[]][] = [
    ["ADD", "0.1.0", ["0.1.0"]],
    ["ADD", "9.8.7", ["9.8.7", "10.0.0"]],
    ["ADD", "1.1.0", ["junk", "1.1.0"]],
    ["DEL", "0.1.0", ["0.1.0"]],
    ["CHECK", "0.4.0", ["0.3.0", "0.4.0"]],
    ["CHECK", "1.1.0", ["1.0.0", "1.1.0"]],
    ["GC", "1.1.0", ["1.1.0"]],
    ["STATUS", "1.1.0", ["1.0.0", "1.1.0"]],
    ["STATUS", "1.1.0", ["1.1.0", "junk"]],
  ];
  for (const [command, config, plugin] of rows) {
    await t.step(`${command} ${config}, plugin serves ${plugin}`, () => {
      checkVersion(pluginFor(...plugin), command, config);
    });
  }
});
