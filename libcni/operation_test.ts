import { assertEquals, assertThrows } from "@std/assert";
import { CniError, describeError, toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { decodePluginConf } from "./conf.ts";
import {
  hasVersion,
  mayHaveVersion,
  pluginFailure,
  runPlugin,
  sayWhichFailed,
} from "./operation.ts";
import { createTools } from "./tools.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

Deno.test("runPlugin() passes the attachment, if any", async () => {
  using host = new RecordingPlugins();
  host.add("a", { STATUS: "env | grep ^CNI_ >&2; echo $OTHER >&2" });
  const other = `${host.directory.path}/other`;
  const tools = createTools({
    pluginDirs: [other, host.directory.path],
    env: { PATH: Deno.env.get("PATH") ?? "", OTHER: "x", CNI_IFNAME: "old" },
    onStderr: (text) => void (host.logged += text),
  });
  const stdin = new TextEncoder().encode("{}");
  const path = `${other}:${host.directory.path}`;
  const conf = host.conf({ args: [["A", "1"], ["B", "2"]] });
  await runPlugin(tools, { command: "ADD", type: "a", stdin, conf });
  assertEquals(host.calls, [{
    type: "a",
    command: "ADD",
    containerId: "c1",
    netns: "/run/netns/c1",
    ifName: "eth0",
    args: "A=1;B=2",
    path,
    stdin: {},
  }]);
  await runPlugin(tools, { command: "STATUS", type: "a", stdin });
  assertEquals(host.logged.trim().split("\n").sort(), [
    "CNI_ARGS=",
    "CNI_COMMAND=STATUS",
    "CNI_CONTAINERID=",
    "CNI_IFNAME=",
    "CNI_NETNS=",
    `CNI_PATH=${path}`,
    "x",
  ]);
});

Deno.test("sayWhichFailed() puts the outer text into the message", async (t) => {
  const later = new CniError(11, "later", { details: "soon" });
  const plugin = decodePluginConf({ type: "a" });
  const failure = pluginFailure(plugin, "add", later);
  const rows: [name: string, error: unknown, expected: string, code: number][] =
    [
      [
        "a plugin of a list",
        failure,
        'plugin type="a" failed (add): later; soon',
        11,
      ],
      ["a plugin's own error", later, "later; soon", 11],
      ["an error of ours", new TypeError("oops"), "oops", 999],
      [
        "several",
        new AggregateError([failure, failure], "2 failed"),
        '2 failed; plugin type="a" failed (add): later: soon; ' +
        'plugin type="a" failed (add): later: soon',
        11,
      ],
    ];
  await eachRow(t, rows, ([, error, expected, code]) => {
    const said = sayWhichFailed(error);
    assertEquals([said.toString(), said.code], [expected, code]);
  });
});

testRows("pluginFailure() says which plugin failed and keeps its error", [
  ["type", { type: "a" }, 'plugin type="a" failed (add): later'],
  [
    "type and name",
    { type: "a", name: "n" },
    'plugin type="a" name="n" failed (add): later',
  ],
], ([, document, text]: [string, { type: string; name?: string }, string]) => {
  const cause = new CniError(11, "later");
  const error = pluginFailure(
    decodePluginConf({ ...document }),
    "add",
    cause,
  );
  assertEquals(describeError(error), text);
  assertEquals(`${error}`, text);
  assertEquals(toCniError(error).code, 11);
});

testRows("hasVersion() and mayHaveVersion() differ on malformed versions", [
  ["0.4.0", true],
  ["1.1.0", true],
  ["0.3.1", false],
  ["", false],
  ["broken", undefined],
  ["1.0.0-rc1", undefined],
], ([cniVersion, expected]: [string, boolean | undefined]) => {
  assertEquals(mayHaveVersion({ cniVersion }, "0.4.0"), expected ?? false);
  const ask = (): boolean => hasVersion({ cniVersion }, "0.4.0");
  if (expected !== undefined) assertEquals(ask(), expected);
  else assertEquals(assertThrows(ask, CniError).code, 6);
}, ([cniVersion]) => JSON.stringify(cniVersion));
