import { assertEquals, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../cni/call/args.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import type { DispatchOutput } from "../../cni/call/context.ts";
import { dispatch } from "../../cni/skel.ts";
import { RecordingPlugins } from "../../tests/_harness/recording_plugins.ts";
import { findPlugin } from "../registry.ts";
import { createChain } from "./plugin.ts";
import { testRows } from "../../tests/_harness/table.ts";

const LATER = `echo '{"code":11,"msg":"later"}'; exit 1`;

/** Runs the chain with scripts as plugins. */
async function run(
  host: RecordingPlugins,
  command: string,
  config: object,
): Promise<DispatchOutput> {
  const text = JSON.stringify({ cniVersion: "1.1.0", name: "net1", ...config });
  const chain = createChain(`${host.directory.path}/records`);
  return await dispatch(chain, {
    env: {
      PATH: "/usr/bin:/bin",
      CNI_COMMAND: command,
      CNI_CONTAINERID: "c1",
      CNI_NETNS: "/run/netns/c1",
      CNI_IFNAME: "eth0",
      CNI_PATH: host.directory.path,
      CNI_LOG_FILE: "stderr",
    },
    stdin: () => new TextEncoder().encode(text),
    invoker: createInvoker(dispatch, findPlugin),
    hostNetns: "/proc/thread-self/ns/net",
  });
}

function hostOf(...types: readonly string[]): RecordingPlugins {
  const host = new RecordingPlugins();
  for (const type of types) host.add(type);
  return host;
}

testRows<[unknown, string]>("chain refuses invalid lists of plugins", [
  [undefined, "Cannot run a chain: it has no plugins"],
  [null, "Cannot run a chain: it has no plugins"],
  [{ type: "a" }, "plugins: expected an array, got an object"],
  [[], "Cannot run a chain: it has no plugins"],
  [[{ type: "a" }, {}], "failed to parse plugin config 1: "],
  [[{ type: "a" }, null], "missing 'type'"],
  [[{ type: "a" }, "b"], "failed to parse plugin config 1: "],
  [[{ type: "a", capabilities: 1 }], "failed to parse plugin config 0: "],
], async ([plugins, problem]) => {
  using host = hostOf("a", "b");
  for (const command of COMMANDS) {
    const { exitCode, stdout, stderr } = await run(host, command, { plugins });
    // No ADD can have run it, so DEL and GC have nothing to undo.
    const isUndo = command === "DEL" || command === "GC";
    assertEquals(exitCode, isUndo ? 0 : 1);
    if (!isUndo) assertEquals(JSON.parse(stdout).code, 7);
    assertStringIncludes(isUndo ? stderr : JSON.parse(stdout).msg, problem);
  }
  assertEquals(host.story, []);
}, ([plugins]) => JSON.stringify(plugins) ?? "none");

testRows("chain refuses DEL and GC without the plugins that ADD ran", [
  ["ADD has succeeded", { ADD: "echo '{}'" }, ["DEL"]],
  ["a failed ADD has left something", { ADD: LATER, DEL: LATER }, [
    "DEL",
    "GC",
  ]],
], async (
  [, answers, commands]: [string, Record<string, string>, string[]],
) => {
  using host = hostOf("a");
  host.add("b", answers);
  const plugins = [{ type: "a" }, { type: "b" }];
  const { exitCode, stdout } = await run(host, "ADD", { plugins });
  const prevResult = exitCode === 0 ? JSON.parse(stdout) : undefined;
  const story = [...host.story];
  for (const command of commands) {
    const keys = { plugins: [], prevResult };
    const failed = await run(host, command, keys);
    assertEquals(JSON.parse(failed.stdout).code, 7);
  }
  assertEquals(host.story, story);
});

testRows("chain names the failed plugin in its error", [
  ["ADD", 'plugin type="b" name="x" failed (add): later'],
  ["DEL", 'plugin type="b" name="x" failed (delete): later'],
  ["CHECK", "later"],
  ["STATUS", "later"],
  ["GC", "failed to GC plugin b: later"],
], async ([command, msg]: [string, string]) => {
  using host = hostOf("a");
  host.add("b", { [command]: LATER });
  const plugins = [{ type: "a" }, { type: "b", name: "x" }];
  const { exitCode, stdout } = await run(host, command, { plugins });
  assertEquals(exitCode, 1);
  assertEquals(JSON.parse(stdout), { cniVersion: "1.1.0", code: 11, msg });
});

Deno.test("chain.gc() reports all failures", async () => {
  using host = hostOf("b");
  for (const type of ["a", "c"]) host.add(type, { GC: LATER });
  const plugins = ["a", "b", "c"].map((type) => ({ type }));
  const { stdout } = await run(host, "GC", { plugins });
  assertEquals(host.story, ["a GC", "b GC", "c GC"]);
  const { code, msg, details } = JSON.parse(stdout);
  assertEquals([code, msg], [11, "2 plugins failed (GC)"]);
  assertEquals(
    details,
    "failed to GC plugin a: later; failed to GC plugin c: later",
  );
});

Deno.test("chain refuses an invalid list of valid attachments, and runs nothing", async () => {
  using host = hostOf("a");
  const { stdout } = await run(host, "GC", {
    plugins: [{ type: "a" }],
    "cni.dev/valid-attachments": [{ containerID: 5 }],
  });
  assertEquals(JSON.parse(stdout).code, 7);
  assertEquals(host.story, []);
});

Deno.test("chain.add() prints the last plugin's result unchanged", async () => {
  using host = hostOf("a");
  const answer = { cniVersion: "0.4.0", z: [1], ips: null, x: { b: 1, a: 2 } };
  host.add("b", { ADD: `echo '${JSON.stringify(answer)}'` });
  const plugins = [{ type: "a" }, { type: "b" }];
  const { stdout } = await run(host, "ADD", { plugins });
  assertEquals(stdout, JSON.stringify(answer, null, 4));
});

Deno.test("chain passes the runtime's args to all its plugins", async () => {
  using host = hostOf("a", "b");
  await run(host, "ADD", {
    args: { cni: { ips: ["10.0.0.9"], other: 1 }, vendor: 2 },
    plugins: [
      { type: "a" },
      { type: "b", args: { cni: { other: 0, own: 3 }, kept: 4 } },
    ],
  });
  assertEquals(host.calls.map(({ stdin }) => stdin.args), [
    { cni: { ips: ["10.0.0.9"], other: 1 }, vendor: 2 },
    { cni: { ips: ["10.0.0.9"], other: 1, own: 3 }, vendor: 2, kept: 4 },
  ]);
});

/** A chain that passes less to its plugins than they declare. */
const MISTAKEN = {
  capabilities: { ips: true, mac: false },
  ipam: { type: "host-local" },
  dns: {},
  plugins: [
    { type: "a", capabilities: { ips: true, mac: true } },
    { type: "b", capabilities: { portMappings: true, bandwidth: false } },
  ],
};

Deno.test("chain.status() refuses keys that no plugin would read", async () => {
  using host = hostOf("a", "b");
  const { stdout } = await run(host, "STATUS", MISTAKEN);
  const { code, msg } = JSON.parse(stdout);
  assertEquals(code, 7);
  for (const name of ['"mac"', '"portMappings"', '"ipam"', '"dns"']) {
    assertStringIncludes(msg, name);
  }
  assertEquals([msg.includes("bandwidth"), msg.includes('"ips"')], [
    false,
    false,
  ]);
  assertEquals(host.story, []);
});

Deno.test("chain.add() warns of each key that no plugin reads", async () => {
  using host = hostOf("a", "b");
  const config = { ...MISTAKEN, runtimeConfig: { ips: ["10.0.0.9"] } };
  const { exitCode, stderr } = await run(host, "ADD", config);
  assertEquals(exitCode, 0);
  assertEquals(stderr.match(/level=warn plugin=chain .* mistake=/g)?.length, 4);
  assertEquals(
    host.calls.map(({ stdin }) => stdin.runtimeConfig),
    [{ ips: ["10.0.0.9"] }, undefined],
  );
  assertEquals((await run(host, "DEL", config)).stderr, "");
});

Deno.test("chain.del() runs its plugins without a malformed prevResult", async () => {
  using host = hostOf("a");
  const { exitCode, stderr } = await run(host, "DEL", {
    plugins: [{ type: "a" }],
    prevResult: 5,
    capabilities: "x",
  });
  assertEquals(exitCode, 0);
  assertStringIncludes(stderr, "prevResult: expected an object, got a number");
  assertEquals(host.calls.map(({ stdin }) => stdin.prevResult), [undefined]);
});

testRows("chain refuses commands that the CNI version does not have", [
  ["ADD", "0.1.0"],
  ["CHECK", "0.3.1", 1],
  ["CHECK", "0.4.0"],
  ["GC", "1.0.0", 1],
  ["GC", "1.1.0"],
  ["STATUS", "1.0.0", 1],
  ["ADD", "1.2.0", 1],
], async ([command, cniVersion, code]: [string, string, number?]) => {
  using host = hostOf("a");
  const plugins = [{ type: "a" }];
  const config = { cniVersion, plugins };
  const { exitCode, stdout } = await run(host, command, config);
  assertEquals(exitCode, code === undefined ? 0 : 1);
  if (code !== undefined) assertEquals(JSON.parse(stdout).code, code);
  assertEquals(host.calls.length, code === undefined ? 1 : 0);
}, ([command, cniVersion]) => `${command} ${cniVersion}`);
