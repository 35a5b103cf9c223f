// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import {
  type CniPathFile,
  findNameless,
  findOwnType,
  listPluginFiles,
} from "./plugin_file.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const VERSION = `echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'`;

function list(
  directories: readonly string[],
  timeoutMs = 10_000,
): Promise<CniPathFile[]> {
  const interrupt = new AbortController().signal;
  const env = { PATH: Deno.env.get("PATH") ?? "" };
  return listPluginFiles(directories, { env, interrupt, timeoutMs });
}

Deno.test("listPluginFiles() reports origins and versions", async () => {
  using first = new PluginDirectory();
  using second = new PluginDirectory();
  first.addOwnExecutable("ptp");
  first.addOwnExecutable("cni");
  first.add("cni-multus", "exit 3"); // of another release
  first.add("theirs", VERSION);
  second.add("theirs", VERSION);
  second.add("only", VERSION);
  const files = await list([first.path, "/nonexistent", second.path]);
  const shown = files.map(({ name, origin, versions, shadowedBy, problem }) =>
    [name, origin, versions.at(-1), shadowedBy, problem] as const
  );
  assertEquals(shown, [
    ["cni", "ours", undefined, undefined, undefined],
    ["cni-multus", "other", undefined, undefined, undefined],
    ["only", "other", "1.0.0", undefined, undefined],
    ["ptp", "ours", "1.1.0", undefined, undefined],
    ["theirs", "other", "1.0.0", undefined, undefined],
    ["theirs", "other", "1.0.0", `${first.path}/theirs`, undefined],
  ]);
});

Deno.test("listPluginFiles() reports why a plugin is unusable", async (t) => {
  using directory = new PluginDirectory();
  directory.addFile("empty", "");
  directory.addFile("text", "hello");
  directory.addFile("off", "#!/bin/sh\n", 0o644);
  Deno.symlinkSync("/nonexistent", `${directory.path}/link`);
  directory.add("broken", "exit 3");
  directory.add("silent", "exit 0");
  directory.add("error", `echo '{"code":4,"msg":"no"}'; exit 1`);
  directory.add("hangs", "sleep 100");
  const files = await list([directory.path], 300);
  const rows: [name: string, problem: string][] = [
    ["empty", "not an executable: exec format error"],
    ["text", "not an executable: exec format error"],
    ["off", "not executable"],
    ["link", "dangling link"],
    ["broken", "exit status 3"],
    ["silent", "decoding version info"],
    ["error", "no"],
    ["hangs", "the deadline has passed"],
  ];
  await eachRow(t, rows, ([name, problem]) => {
    const file = files.find((file) => file.name === name);
    assertStringIncludes(file?.problem ?? "", problem);
    assertEquals(file?.versions, []);
  });
});

Deno.test("listPluginFiles() skips files that are not plugins", async () => {
  using directory = new PluginDirectory();
  directory.addFile("LICENSE", "You may", 0o644);
  Deno.mkdirSync(`${directory.path}/directory`);
  assertEquals(await list([directory.path]), []);
});

Deno.test("listPluginFiles() recognizes a copy of its own executable", async () => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/cni`;
  Deno.copyFileSync("/proc/self/exe", path);
  Deno.chmodSync(path, 0o755);
  const [copy] = await list([directory.path]);
  assertEquals([copy?.origin, copy?.problem], ["copy", undefined]);
  using file = Deno.openSync(path, { write: true });
  file.seekSync(-1, Deno.SeekMode.End);
  file.writeSync(Uint8Array.of(0xff));
  const [changed] = await list([directory.path], 1);
  assertEquals(changed?.origin, "other");
});

Deno.test("findOwnType() finds the plugin of an executable with another name", async (t) => {
  using directory = new PluginDirectory();
  const { path } = directory;
  for (const name of ["vlan", "acme-ptp", "acme", "ptp-bridge"]) {
    directory.addOwnExecutable(name);
  }
  Deno.symlinkSync("vlan", `${path}/tagged`);
  Deno.copyFileSync("/proc/self/exe", `${path}/copied.tap`);
  Deno.chmodSync(`${path}/copied.tap`, 0o755);
  directory.add("their-ptp", VERSION);
  directory.add("bridge", VERSION);
  const nameless = /^no plugin is named/;
  const ambiguous = /it contains the names of bridge and ptp/;
  const rows: [type: string, own: string | undefined, error?: RegExp][] = [
    ["vlan", "vlan"],
    ["acme-ptp", "ptp"],
    ["tagged", "vlan"],
    ["copied.tap", "tap"],
    ["acme", undefined, nameless],
    ["ptp-bridge", undefined, ambiguous],
    ["their-ptp", undefined],
    ["bridge", undefined],
    ["not-there", undefined],
    // It may be installed later.
    ["macvlan", "macvlan"],
  ];
  await eachRow(t, rows, async ([type, own, error]) => {
    assertEquals(await findOwnType(type, [path]), own);
    const found = await findNameless(type, [path]);
    const text = found && `${found.message}; ${found.details}`;
    assertEquals(text !== undefined, error !== undefined);
    assertMatch(text ?? "", error ?? /^$/);
  });
  const plugins = new Map(
    (await list([path])).map(({ name, plugin }) => [name, plugin]),
  );
  assertEquals(
    ["acme-ptp", "copied.tap", "acme", "bridge"].map((name) =>
      plugins.get(name)
    ),
    ["ptp", "tap", undefined, undefined],
  );
});
