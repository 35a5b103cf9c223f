import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { logCall, readScript, recordCall, writeCall } from "./debug_file.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const call = recordCall({
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "c1",
  CNI_NETNS_OVERRIDE: "TRUE",
}, new TextEncoder().encode('{"é":1}'));

Deno.test("recordCall() records every variable, and stdin in base64", () => {
  assertEquals(call, {
    Command: "ADD",
    CmdArgs: {
      ContainerID: "c1",
      Netns: "",
      IfName: "",
      Args: "",
      Path: "",
      NetnsOverride: "TRUE",
      StdinData: "eyLDqSI6MX0=",
    },
  });
});

Deno.test("readScript() reads debug files of the Go library", () => {
  using directory = new PluginDirectory();
  const path = directory.addFile(
    "debug",
    '{"ReportResult":"{}","ReportError":"","ReportErrorCode":0,"ReportStderr":"",' +
      '"ReportVersionSupport":null,"ExitWithCode":0,"Command":"","CmdArgs":' +
      '{"ContainerID":"","Netns":"","IfName":"","Args":"","Path":"",' +
      '"NetnsOverride":"","StdinData":null}}',
  );
  const { ReportResult, ReportVersionSupport, ExitWithCode } = readScript(path);
  assertEquals([ReportResult, ReportVersionSupport, ExitWithCode], [
    "{}",
    undefined,
    0,
  ]);
});

Deno.test("readScript() refuses malformed debug files", async (t) => {
  using directory = new PluginDirectory();
  const rows: [string, number][] = [
    ["", 6],
    ["{", 6],
    ["[]", 7],
    ['{"ReportErrorCode":-1}', 7],
    ['{"ReportVersionSupport":"1.1.0"}', 7],
    ['{"SleepSeconds":-1}', 7],
  ];
  await eachRow(t, rows, ([content, code]) => {
    const path = directory.addFile("debug", content);
    const error = assertThrows(() => readScript(path), CniError, path);
    assertEquals(error.code, code);
  });
  await t.step("no file", () => {
    const path = `${directory.path}/none`;
    const error = assertThrows(() => readScript(path), CniError, path);
    assertEquals(error.code, 5);
  });
});

Deno.test("writeCall() replaces the call, keeps the script, and leaves no other file", () => {
  using directory = new PluginDirectory();
  const path = directory.addFile("debug", '{"ReportResult":"{}","Other":1}');
  for (const Command of ["ADD", "DEL"]) {
    writeCall(path, readScript(path), { ...call, Command });
  }
  assertEquals(JSON.parse(Deno.readTextFileSync(path)), {
    ReportResult: "{}",
    Other: 1,
    Command: "DEL",
    CmdArgs: call.CmdArgs,
  });
  const names = [...Deno.readDirSync(directory.path)].map(({ name }) => name);
  assertEquals(names, ["debug"]);
});

Deno.test("logCall() appends to a list", async (t) => {
  using directory = new PluginDirectory();
  const rows: [string, string, number][] = [
    ["an empty file", "", 1],
    ["null", "null", 1],
    ["an empty list", "[]", 1],
    ["a list that is longer than the new one", `[1,${" ".repeat(2000)}2]`, 3],
  ];
  await eachRow(t, rows, ([, content, length]) => {
    const path = directory.addFile("log", content);
    logCall(path, call);
    const calls = JSON.parse(Deno.readTextFileSync(path));
    assertEquals([calls.length, calls.at(-1)], [length, call]);
  });
});

Deno.test("logCall() refuses a file that is not a list, and keeps it", async (t) => {
  using directory = new PluginDirectory();
  await eachRow(t, [["{}", 7], ["[", 6]] as const, ([content, code]) => {
    const path = directory.addFile("log", content);
    const error = assertThrows(() => logCall(path, call), CniError, path);
    assertEquals(error.code, code);
    assertEquals(Deno.readTextFileSync(path), content);
  });
});
