// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { exists } from "../../base/files/io.ts";
import type { Environment } from "../../base/process/environment.ts";
import { writeDebugFile } from "./testing.ts";
import {
  ENV,
  type Outcome,
  run as runPlugin,
} from "../../tests/_harness/recorder.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { debug } from "./plugin.ts";
import { hasEnded, killIfAlive } from "../../tests/_harness/process_group.ts";
import { whenSuperseded } from "../../tests/_harness/superseded.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Runs the plugin for a sandbox that does not exist. */
function run(
  command: string,
  config: object,
  env: Environment = {},
): Promise<Outcome> {
  const whole = { cniVersion: "1.1.0", name: "net1", ...config };
  const all = { ...ENV, NETCONFPATH: "/nowhere", CNI_COMMAND: command, ...env };
  return runPlugin(debug, all, whole);
}

/** Does so on a node that asks for it. */
function runAsked(
  { path }: PluginDirectory,
  command: string,
  config: object,
): Promise<Outcome> {
  return run(command, config, writeDebugFile(path, config));
}

function titlesIn(path: string): string[] {
  return Deno.readTextFileSync(path).split("\n")
    .filter((line) => line.startsWith("Cmd"));
}

Deno.test("debug continues with a warning if it cannot write the file", async (t) => {
  using directory = new PluginDirectory();
  await eachRow(
    t,
    [`${directory.path}/none/file`, directory.path],
    async (path) => {
      const config = { cniOutput: path };
      const output = await runAsked(directory, "ADD", config);
      const { exitCode, stdout, stderr } = output;
      assertEquals([exitCode, stdout !== ""], [0, true]);
      assertStringIncludes(stderr, "level=warn");
      assertStringIncludes(stderr, path);
    },
    (path) => path === directory.path ? "a directory" : "no directory",
  );
});

Deno.test("debug keeps the mode of an existing file", async () => {
  using directory = new PluginDirectory();
  const cniOutput = directory.addFile("secret", "before\n", 0o600);
  await runAsked(directory, "ADD", { cniOutput });
  assertEquals((Deno.statSync(cniOutput).mode ?? 0) & 0o777, 0o600);
  assertMatch(Deno.readTextFileSync(cniOutput), /^before\nCmdAdd\n/);
});

testRows(
  "debug writes no record without cniOutput",
  [undefined, "", null],
  async (cniOutput) => {
    const { exitCode, stderr } = await run("ADD", { cniOutput });
    assertEquals([exitCode, stderr], [0, ""]);
  },
  (cniOutput) => String(cniOutput),
);

Deno.test("debug refuses invalid hooks on ADD, and ignores them on DEL", async (t) => {
  for (const hooks of [[[]], ["ip address"], [[1]], "ip address"]) {
    await t.step(JSON.stringify(hooks), async () => {
      const added = await run("ADD", { addHooks: hooks });
      assertEquals([added.exitCode, JSON.parse(added.stdout).code], [1, 7]);
      assertStringIncludes(added.stdout, "addHooks");
      assertEquals((await run("DEL", { delHooks: hooks })).exitCode, 0);
    });
  }
});

Deno.test("debug records its input before it refuses the prevResult", async () => {
  using directory = new PluginDirectory();
  const cniOutput = `${directory.path}/output`;
  const prevResult = { cniVersion: "0.4.0" };
  const config = { cniOutput, prevResult };
  const { exitCode } = await runAsked(directory, "ADD", config);
  assertEquals([exitCode, titlesIn(cniOutput)], [1, ["CmdAdd"]]);
});

rootTest("debug kills a slow hook and its children", async () => {
  using hosts = TestHosts.create();
  const pids = `${hosts.directory}/pids`;
  const hang = ["sh", "-c", 'sleep 60 & echo $$ $! > "$0"; wait', pids];
  const { exitCode, stderr } = await add(hosts, {
    addHooks: [hang, ["touch", `${hosts.directory}/next`]],
    hookTimeoutSeconds: 2,
  });
  assertEquals(exitCode, 0);
  assertStringIncludes(stderr, "it did not finish within 2 s");
  assert(Deno.statSync(`${hosts.directory}/next`).isFile);
  for (const pid of Deno.readTextFileSync(pids).trim().split(" ")) {
    await eventually(`${pid} ended`, () => hasEnded(Number(pid)));
  }
});

/** Runs ADD on a host that asks for it. */
function add(hosts: TestHosts, keys: object): Promise<CallOutput> {
  writeDebugFile(hosts.directory, keys);
  const config = { cniVersion: "1.1.0", name: "net1", ...keys };
  return hosts.run("debug", "ADD", config);
}

rootTest("debug does not wait for processes that a hook leaves", async () => {
  using hosts = TestHosts.create();
  const pid = `${hosts.directory}/pid`;
  const daemon = ["sh", "-c", 'sleep 60 & echo $! > "$0"', pid];
  const { exitCode, stderr } = await add(hosts, {
    addHooks: [daemon],
    hookTimeoutSeconds: 20,
  });
  const left = Number(Deno.readTextFileSync(pid));
  try {
    assertEquals([exitCode, stderr, hasEnded(left)], [0, "", false]);
  } finally {
    killIfAlive(left);
  }
});

rootTest("debug runs no hook in a superseded call", async () => {
  using hosts = TestHosts.create();
  const hook = `${hosts.directory}/hook`;
  const { exitCode, json } = await whenSuperseded(() =>
    add(hosts, { addHooks: [["touch", hook]] })
  );
  assertEquals([exitCode, json.msg, exists(hook)], [1, "superseded", false]);
});

rootTest("debug runs no hook in the host's own namespace", async () => {
  using hosts = TestHosts.create();
  const { exitCode, json } = await hosts.run("debug", "DEL", {
    cniVersion: "1.1.0",
    name: "net1",
    delHooks: [["touch", `${hosts.directory}/hook`]],
  }, { sandbox: hosts.host });
  assertEquals([exitCode, json.code], [1, 8]);
  assertEquals([...Deno.readDirSync(hosts.directory)].map(({ name }) => name), [
    "bin",
  ]);
});

Deno.test("debug runs hooks and writes files only if a file on the node allows it", async (t) => {
  using directory = new PluginDirectory();
  const cniOutput = `${directory.path}/output`;
  const hook = ["touch", `${directory.path}/hook`];
  const asked = { cniOutput, addHooks: [hook] };
  const env = writeDebugFile(directory.path, asked);
  const other = { ...asked, addHooks: [["touch", "/other"]] };
  const rows: [string, object, boolean][] = [
    ["the same", asked, true],
    ["less", { cniOutput }, true],
    ["nothing", {}, true],
    ["another hook", other, false],
    ["one more hook", { addHooks: [hook, hook] }, false],
    ["another file", { ...asked, cniOutput: `${cniOutput}2` }, false],
    ["the hook for another command", { checkHooks: [hook] }, true],
  ];
  await eachRow(t, rows, async ([, config, isAsked]) => {
    const { exitCode, stdout } = await run("ADD", config, env);
    if (isAsked) return assertEquals(exitCode, 0, stdout);
    const { code, msg } = JSON.parse(stdout);
    assertEquals(code, 7);
    assertStringIncludes(
      msg,
      `no file in "${env.NETCONFPATH}" contains a plugin`,
    );
  });
  assertEquals(titlesIn(cniOutput), ["CmdAdd", "CmdAdd"]);
});

Deno.test("debug in a definition does nothing, and DEL succeeds", async (t) => {
  using directory = new PluginDirectory();
  const cniOutput = `${directory.path}/output`;
  const hooks = [["touch", `${directory.path}/hook`]];
  const config = {
    cniOutput,
    addHooks: hooks,
    checkHooks: hooks,
    delHooks: hooks,
  };
  const codes = { ADD: 1, CHECK: 1, STATUS: 1, DEL: 0, GC: 0 };
  await eachRow(t, Object.entries(codes), async ([command, expected]) => {
    const { exitCode, stderr } = await run(command, config);
    assertEquals(exitCode, expected);
    assertEquals(stderr.includes("debug does nothing"), expected === 0);
  });
  assertEquals([...Deno.readDirSync(directory.path)], []);
});

Deno.test("debug finds its configuration at any depth of a network file", async (t) => {
  const plugin = { Type: "debug", CNIOUTPUT: "/dev/null/x" };
  const rows: [path: string, content: string, isFound: boolean][] = [
    ["10-a.conf", JSON.stringify(plugin), true],
    ["net.d/a/b/10-a.conflist", JSON.stringify({ plugins: [plugin] }), true],
    ["a.json", JSON.stringify({ delegates: [{ plugins: [plugin] }] }), true],
    ["a.txt", JSON.stringify(plugin), false],
    ["a.conf", JSON.stringify({ ...plugin, Type: "ptp" }), false],
    ["a.conf", "{", false],
  ];
  await eachRow(t, rows, async ([path, content, isFound]) => {
    using directory = new PluginDirectory();
    const full = `${directory.path}/${path}`;
    Deno.mkdirSync(full.slice(0, full.lastIndexOf("/")), { recursive: true });
    Deno.writeTextFileSync(full, content);
    const env = { NETCONFPATH: directory.path };
    const { exitCode } = await run("ADD", { cniOutput: "/dev/null/x" }, env);
    assertEquals(exitCode, isFound ? 0 : 1);
  }, ([path, content]) => `${path} ${content}`);
});
