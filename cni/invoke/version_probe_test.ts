import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { CniError } from "../../base/error.ts";
import { deadline } from "../../base/deadline.ts";
import {
  decodeVersionInfo,
  getVersionInfo,
  type VersionInfo,
} from "./version_probe.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

Deno.test("getVersionInfo() asks as the first plugins need to be asked", async () => {
  using directory = new PluginDirectory();
  const path = directory.add(
    "plugin",
    `cat > ${directory.path}/stdin; tr '\\0' '\\n' < /proc/$$/environ > ${directory.path}/env
    echo log >&2; echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'`,
  );
  const written: string[] = [];
  const env = { PATH: "/bin", CNI_COMMAND: "ADD", CNI_ARGS: "own" };
  const info = await getVersionInfo(path, {
    env,
    onStderr: (text) => written.push(text),
  });
  assertEquals(info, { cniVersion: "1.0.0", supportedVersions: ["1.0.0"] });
  assertEquals(written, ["log\n"]);
  const text = (name: string): string =>
    Deno.readTextFileSync(`${directory.path}/${name}`);
  assertEquals(text("stdin"), '{"cniVersion":"1.1.0"}');
  assertEquals(text("env").trim().split("\n").sort(), [
    "CNI_ARGS=",
    "CNI_COMMAND=VERSION",
    "CNI_CONTAINERID=",
    "CNI_IFNAME=dummy",
    "CNI_NETNS=dummy",
    "CNI_PATH=dummy",
    "PATH=/bin",
  ]);
});

Deno.test("getVersionInfo() passes on why a plugin does not answer", async (t) => {
  using directory = new PluginDirectory();
  const rows: [name: string, script: string, code: number, msg: string][] = [
    ["its error", `echo '{"code":7,"msg":"m"}'; exit 1`, 7, "m"],
    [
      "another unknown command",
      `echo '{"code":4,"msg":"unknown CNI_COMMAND: X"}'; exit 1`,
      4,
      "unknown CNI_COMMAND: X",
    ],
    [
      "no JSON",
      "echo '{{{'",
      6,
      "decoding version info: Cannot parse answer: ",
    ],
    [
      "a sleep",
      "exec sleep 60",
      999,
      "netplugin failed with no error message: signal: killed",
    ],
  ];
  await eachRow(t, rows, async ([name, script, code, msg]) => {
    const path = directory.add("plugin", script);
    const signal = deadline(name === "a sleep" ? 300 : 60_000);
    const error = await assertRejects(
      () => getVersionInfo(path, { env: { PATH: "/bin" }, signal }),
      CniError,
      msg,
    );
    assertEquals(error.code, code);
  });
});

testRows("decodeVersionInfo() reads every form of the answer", [
  ["a list, in its order", {
    cniVersion: "1.1.0",
    supportedVersions: ["1.0.0", "0.1.0", "9.8.7"],
  }, { cniVersion: "1.1.0", supportedVersions: ["1.0.0", "0.1.0", "9.8.7"] }],
  ["keys in another case", {
    CNIVERSION: "1.1.0",
    SupportedVersions: ["1.0.0"],
  }, { cniVersion: "1.1.0", supportedVersions: ["1.0.0"] }],
  ["no list in 0.2.0", { cniVersion: "0.2.0" }, {
    cniVersion: "0.2.0",
    supportedVersions: ["0.1.0", "0.2.0"],
  }],
  ["an empty list in 0.2.0", {
    cniVersion: "0.2.0",
    supportedVersions: [],
  }, { cniVersion: "0.2.0", supportedVersions: ["0.1.0", "0.2.0"] }],
], ([, answer, expected]: [string, unknown, VersionInfo]) => {
  assertEquals(decodeVersionInfo(JSON.stringify(answer)), expected);
});

testRows<[string, string]>("decodeVersionInfo() refuses malformed output", [
  ["", "Cannot parse answer: it is empty"],
  ["[]", "Cannot decode answer: expected an object, got an array"],
  ["null", "Cannot decode answer: expected an object, got null"],
  ["{}", "missing field cniVersion"],
  ['{"cniVersion":""}', "missing field cniVersion"],
  ['{"supportedVersions":["1.0.0"]}', "missing field cniVersion"],
  ['{"cniVersion":"0.3.0"}', "missing field supportedVersions"],
  [
    '{"cniVersion":"1.0.0","supportedVersions":[]}',
    "missing field supportedVersions",
  ],
  [
    '{"cniVersion":"1.0.0","supportedVersions":"1.0.0"}',
    "Cannot decode answer: supportedVersions: expected an array, got a string",
  ],
], ([stdout, problem]) => {
  const error = assertThrows(() => decodeVersionInfo(stdout), CniError);
  assertEquals(error.toObject("1.1.0"), {
    cniVersion: "1.1.0",
    code: 6,
    msg: `decoding version info: ${problem}`,
  });
});
