import { assertEquals, assertStringIncludes } from "@std/assert";
import { openRegularFile } from "../../ffi/file/regular_file.ts";
import { appendToLog } from "../../base/log/log_file.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni, runCniOn } from "../../tests/_harness/tool_call.ts";

const OLD =
  'time=2026-03-01T10:00:00.000Z level=info plugin=ptp containerId=abc1 msg="a \\"b\\"=c"';
const WARNING =
  "time=2026-03-01T10:00:01.000Z level=warn plugin=ptp containerId=abd2 msg=w";
const JSON_LINE =
  '{"time":"2026-03-01T10:00:02.000Z","level":"error","containerId":"abc1","msg":"e","tries":3}';
const FOREIGN = "a line of another program";

/** Caches the attachment of the pod default/web. */
function addToCache(directory: PluginDirectory): void {
  Deno.mkdirSync(`${directory.path}/results`);
  const cached = {
    kind: "cniCacheV1",
    containerId: "abd2",
    networkName: "pods",
    ifName: "eth0",
    config: "",
    cniArgs: [["K8S_POD_NAMESPACE", "default"], ["K8S_POD_NAME", "web"]],
  };
  directory.addFile("results/pods-abd2-eth0", JSON.stringify(cached));
}

Deno.test("cni logs shows the log file and its older part", async (t) => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/plugins.log`;
  appendToLog(`${path}.1`, [`${OLD}\n`], openRegularFile);
  appendToLog(
    path,
    [`${WARNING}\n`, `${JSON_LINE}\n`, `${FOREIGN}\n`],
    openRegularFile,
  );
  addToCache(directory);
  const call = ["logs", "--raw", "--log-file", path];
  call.push("--cache-dir", directory.path);
  const rows: [args: string[], want: string[]][] = [
    [[], [OLD, WARNING, JSON_LINE, FOREIGN]],
    [["abc1"], [OLD, JSON_LINE]],
    [["ab"], [OLD, WARNING, JSON_LINE]],
    [["--level", "warn"], [WARNING, JSON_LINE, FOREIGN]],
    [["--level", "ERROR", "ab"], [JSON_LINE]],
    [["--tail", "2"], [JSON_LINE, FOREIGN]],
    [["-n", "1", "abc1"], [JSON_LINE]],
    [["default/web"], [WARNING]],
  ];
  await eachRow(t, rows, async ([args, want]) => {
    const ended = await runCni(...call, ...args);
    assertEquals(ended.stdout, want.map((line) => `${line}\n`).join(""));
    assertEquals([ended.stderr, ended.exitCode], ["", 0]);
  });
  await t.step("--json", async () => {
    const { stdout } = await runCni(...call, "--json");
    assertEquals(JSON.parse(stdout), [
      {
        time: "2026-03-01T10:00:00.000Z",
        level: "info",
        plugin: "ptp",
        containerId: "abc1",
        msg: 'a "b"=c',
      },
      {
        time: "2026-03-01T10:00:01.000Z",
        level: "warn",
        plugin: "ptp",
        containerId: "abd2",
        msg: "w",
      },
      JSON.parse(JSON_LINE),
      { msg: FOREIGN },
    ]);
  });
});

Deno.test("cni logs prints time, level, plugin, pod and message", async () => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/plugins.log`;
  const lines = [
    OLD.replace("plugin=ptp", "plugin=ptp command=ADD"),
    `${
      WARNING.replace("msg=w", "")
    }msg="Ignoring a configuration key" key=mtu value=big`,
    JSON_LINE,
    FOREIGN,
  ];
  appendToLog(path, lines.map((line) => `${line}\n`), openRegularFile);
  addToCache(directory);
  const call = ["logs", "--log-file", path, "--cache-dir", directory.path];
  const show = async (width: number | undefined): Promise<string[]> => {
    const { stdout } = await runCniOn(
      width === undefined ? {} : { width },
      ...call,
    );
    return stdout.trimEnd().split("\n");
  };
  assertEquals(await show(undefined), [
    "TIME                  LEVEL  PLUGIN   POD          WHAT",
    '2026-03-01T10:00:00Z  info   ptp ADD  abc1         a "b"=c',
    "2026-03-01T10:00:01Z  warn   ptp      default/web  Ignoring a configuration key, key mtu, value big",
    "2026-03-01T10:00:02Z  error  -        abc1         e, tries 3",
    "-                     -      -        -            a line of another program",
  ]);
  assertEquals(await show(80), [
    "TIME                  LEVEL  PLUGIN   POD",
    "2026-03-01T10:00:00Z  info   ptp ADD  abc1",
    '  a "b"=c',
    "2026-03-01T10:00:01Z  warn   ptp      default/web",
    "  Ignoring a configuration key, key mtu, value big",
    "2026-03-01T10:00:02Z  error  -        abc1",
    "  e, tries 3",
    "-                     -      -        -",
    "  a line of another program",
  ]);
  assertEquals(await show(40), [
    "TIME                  LEVEL  PLUGIN",
    "2026-03-01T10:00:00Z  info   ptp ADD",
    "  abc1",
    '  a "b"=c',
    "2026-03-01T10:00:01Z  warn   ptp",
    "  default/web",
    "  Ignoring a configuration key, key mtu,",
    "  value big",
    "2026-03-01T10:00:02Z  error  -",
    "  abc1",
    "  e, tries 3",
    "-                     -      -",
    "  a line of another program",
  ]);
});

Deno.test("cni logs reports that there is nothing to show", async () => {
  const path = "/nonexistent/plugins.log";
  const none = await runCni("logs", "--log-file", path);
  assertEquals([none.stdout, none.exitCode], ["", 0]);
  assertEquals(none.stderr, `Nothing is logged in ${path}\n`);
  const wrong = await runCni("logs", "--log-file", path, "--tail", "x");
  assertEquals(wrong.exitCode, 1);
  assertStringIncludes(wrong.stderr, 'a number of lines, not "x"');
});
