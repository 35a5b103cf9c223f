// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { PluginFolder } from "../../tests/_harness/plugin_folder.ts";
import { type Outcome, runCommand } from "../../tests/_harness/recorder.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { debug } from "./plugin.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Runs the plugin for a sandbox that does not exist. */
function run(command: string, config: object): Promise<Outcome> {
  const whole = { cniVersion: "1.1.0", name: "net1", ...config };
  return runCommand(debug, command, whole);
}

function titlesIn(path: string): string[] {
  return Deno.readTextFileSync(path).split("\n")
    .filter((line) => line.startsWith("Cmd"));
}

Deno.test("debug goes on when the file cannot be written, and says so", async (t) => {
  using folder = new PluginFolder();
  await eachRow(t, [`${folder.path}/none/file`, folder.path], async (path) => {
    const { exitCode, stdout, stderr } = await run("ADD", { cniOutput: path });
    assertEquals([exitCode, stdout !== ""], [0, true]);
    assertStringIncludes(stderr, "level=warn");
    assertStringIncludes(stderr, path);
  }, (path) => path === folder.path ? "a folder" : "no folder");
});

Deno.test("debug keeps the mode of a file that is there", async () => {
  using folder = new PluginFolder();
  const cniOutput = folder.addFile("secret", "before\n", 0o600);
  await run("ADD", { cniOutput });
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

Deno.test("debug refuses hooks that are none on ADD, and goes on without them on DEL", async (t) => {
  for (const hooks of [[[]], ["ip address"], [[1]], "ip address"]) {
    await t.step(JSON.stringify(hooks), async () => {
      const added = await run("ADD", { addHooks: hooks });
      assertEquals([added.exitCode, JSON.parse(added.stdout).code], [1, 7]);
      assertStringIncludes(added.stdout, "addHooks");
      assertEquals((await run("DEL", { delHooks: hooks })).exitCode, 0);
    });
  }
});

Deno.test("debug records what it is given before a prevResult is refused", async () => {
  using folder = new PluginFolder();
  const cniOutput = `${folder.path}/output`;
  const prevResult = { cniVersion: "0.4.0" };
  const { exitCode } = await run("ADD", { cniOutput, prevResult });
  assertEquals([exitCode, titlesIn(cniOutput)], [1, ["CmdAdd"]]);
});

rootTest("debug kills a slow hook and its children", async () => {
  using hosts = TestHosts.create();
  const pids = `${hosts.folder}/pids`;
  const hang = ["sh", "-c", 'sleep 60 & echo $$ $! > "$0"; wait', pids];
  const { exitCode, stderr } = await hosts.run("debug", "ADD", {
    cniVersion: "1.1.0",
    name: "net1",
    addHooks: [hang, ["touch", `${hosts.folder}/next`]],
    hookTimeoutSeconds: 2,
  });
  assertEquals(exitCode, 0);
  assertStringIncludes(stderr, "no end after 2 s");
  assert(Deno.statSync(`${hosts.folder}/next`).isFile);
  for (const pid of Deno.readTextFileSync(pids).trim().split(" ")) {
    assertEquals(isRunning(pid), false, pid);
  }
});

/** Reports whether a process runs; a zombie does not. */
function isRunning(pid: string): boolean {
  try {
    return !/\) [ZX]/.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false;
  }
}

rootTest("debug does not wait for what a hook leaves behind", async () => {
  using hosts = TestHosts.create();
  const pid = `${hosts.folder}/pid`;
  const daemon = ["sh", "-c", 'sleep 60 & echo $! > "$0"', pid];
  const { exitCode, stderr } = await hosts.run("debug", "ADD", {
    cniVersion: "1.1.0",
    name: "net1",
    addHooks: [daemon],
    hookTimeoutSeconds: 20,
  });
  const left = Deno.readTextFileSync(pid).trim();
  try {
    assertEquals([exitCode, stderr, isRunning(left)], [0, "", true]);
  } finally {
    Deno.kill(Number(left), "SIGKILL");
  }
});

rootTest("debug runs no hook in the host's own namespace", async () => {
  using hosts = TestHosts.create();
  const { exitCode, json } = await hosts.run("debug", "DEL", {
    cniVersion: "1.1.0",
    name: "net1",
    delHooks: [["touch", `${hosts.folder}/hook`]],
  }, { sandbox: hosts.host });
  assertEquals([exitCode, json.code], [1, 8]);
  assertEquals([...Deno.readDirSync(hosts.folder)].map(({ name }) => name), [
    "bin",
  ]);
});
