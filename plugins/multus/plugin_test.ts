// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { NetworkRuntime } from "../../libcni/api.ts";
import { requireRoot } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import { CONTAINER, MultusScene, resultOf } from "./testing/scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

// tests/conformance has the tests with a cluster.

function both(scene: MultusScene): { delegates: JsonObject[] } {
  return { delegates: [scene.conf("first", "a"), scene.conf("second", "b")] };
}

function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals([exitCode, stderr], [0, ""], stdout);
}

/** Registers a test with plugins a and b. */
function test(name: string, run: (scene: MultusScene) => Promise<void>): void {
  const header = requireRoot(name);
  Deno.test({
    ...header,
    async fn(): Promise<void> {
      await using scene = await MultusScene.start();
      scene.addPlugin("a", "1.1.1.2/24");
      scene.addPlugin("b", "1.1.1.3/24");
      await run(scene);
    },
  });
}

const ADDS = ["a ADD eth0", "b ADD net1"];
const DELS = ["b DEL net1", "a DEL eth0"];

test("multus.add() passes on CNI_PATH, with binDir before it", async (scene) => {
  const { path } = scene.plugins.directory;
  const env = { CNI_PATH: "/some/where:/else" };
  assertSuccess(await scene.run("ADD", both(scene), { env }));
  assertEquals(scene.call("a", "ADD")?.path, `${path}:/some/where:/else`);
});

test("multus.add() may be repeated after a failure, without DEL", async (scene) => {
  scene.addPlugin("b", undefined, { ADD: "echo no >&2; exit 1" });
  assertEquals((await scene.run("ADD", both(scene))).exitCode, 1);
  scene.addPlugin("b", "1.1.1.3/24");
  assertSuccess(await scene.run("ADD", both(scene)));
  assertEquals(scene.story.slice(4), ADDS);
});

test("multus.add() does not undo an earlier ADD of an attachment without a link", async (scene) => {
  const { hosts, plugins } = scene;
  const env = { CNI_PATH: `${plugins.directory.path}:${hosts.path}` };
  const lease = scene.conf("net1", "host-local", {
    ipam: hosts.hostLocal("10.1.2.0/24"),
  });
  const run = (command: string, first: JsonObject): Promise<CallOutput> =>
    scene.run(command, { delegates: [first, lease] }, { env });
  const device = scene.conf("first", "a");
  assertSuccess(await run("ADD", device));
  const { remembered } = scene;
  const second = await run("ADD", device);
  assertEquals(second.exitCode, 1);
  assertStringIncludes(second.json.msg, "net1");
  assertEquals(scene.story, ["a ADD eth0", "a ADD eth0"]);
  assertEquals([hosts.leases(), scene.remembered], [["10.1.2.2"], remembered]);
  // An interface is of this ADD: its name was free.
  const link = scene.conf("first", "bridge", { bridge: "br0" });
  assertEquals((await run("ADD", link)).exitCode, 1);
  assertEquals(linkNames(hosts.sandbox), ["lo"]);
  assertEquals(hosts.leases(), ["10.1.2.2"]);
  assertSuccess(await run("DEL", device));
  assertEquals(hosts.leases(), []);
});

test("multus.add() creates nothing if an interface name is in use", async (scene) => {
  runIn(scene.hosts.sandbox, "ip", "link", "add", "net1", "type", "veth");
  const { exitCode, json } = await scene.run("ADD", both(scene));
  assertEquals([exitCode, json.code], [1, 4]);
  assertStringIncludes(json.msg, "interface name net1 already exists");
  assertEquals([scene.story, scene.remembered], [[], []]);
});

test("multus.add() names the failed plugin and its network", async (scene) => {
  const plugins = [{ type: "a" }, { type: "b" }];
  const list = { name: "list", cniVersion: "1.0.0", plugins };
  scene.addPlugin("b", undefined, {
    ADD: `echo '{"code":17,"msg":"it is full","details":"of pods"}'; exit 1`,
  });
  const { json } = await scene.run("ADD", { delegates: [list] });
  assertEquals(json, {
    cniVersion: "1.0.0",
    code: 17,
    msg: '[//:list]: error adding container to network "list": ' +
      'plugin type="b" failed (add): it is full',
    details: "of pods",
  });
  assertEquals(scene.story, [
    "a ADD eth0",
    "b ADD eth0",
    "b DEL eth0",
    "a DEL eth0",
  ]);
});

test("multus.add() names the missing plugin", async (scene) => {
  const delegates = [
    ...both(scene).delegates,
    scene.conf("third", "no-such-plugin"),
  ];
  const { exitCode, json } = await scene.run("ADD", { delegates });
  assertEquals(exitCode, 1);
  assertStringIncludes(json.msg, 'failed to find plugin "no-such-plugin"');
  assertEquals(scene.story, [...ADDS, ...DELS]);
});

/** A result with one address and an unknown key. */
function resultWithKey(cniVersion: string): JsonObject {
  return {
    ...resultOf(cniVersion, "1.1.1.2/24"),
    ...cniVersion !== "0.2.0" && { vendorKey: { kept: true } },
    ...cniVersion.startsWith("0.") && { dns: {} },
  };
}

for (const asked of ["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
  test(`multus.add() prints the result in the configuration's version, ${asked}`, async (scene) => {
    for (const cniVersion of ["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
      const result = resultWithKey(cniVersion);
      const ADD = `echo '${JSON.stringify(result)}'`;
      scene.addPlugin("a", undefined, { ADD });
      const delegates = [scene.conf("first", "a", { cniVersion })];
      const { json } = await scene.run("ADD", { delegates, cniVersion: asked });
      const expected = resultWithKey(asked);
      if (cniVersion === "0.2.0") delete expected["vendorKey"];
      assertEquals(json, expected, `the master's version is ${cniVersion}`);
      await scene.run("DEL", { delegates, cniVersion: asked });
    }
  });
}

test("multus.add() undoes attachments if the result cannot be converted", async (scene) => {
  scene.addPlugin("a", undefined, { ADD: `echo '{"cniVersion":"1.0.0"}'` });
  const keys = { delegates: [scene.conf("first", "a")], cniVersion: "0.2.0" };
  const { exitCode, json } = await scene.run("ADD", keys);
  assertEquals([exitCode, json.code], [1, 1]);
  assertStringIncludes(json.msg, "cannot convert: no valid IP addresses");
  assertEquals(scene.story, ["a ADD eth0", "a DEL eth0"]);
});

test("multus.add() waits for the readiness file", async (scene) => {
  const readinessindicatorfile = `${scene.hosts.directory}/ready`;
  const ADD = `[ -e '${readinessindicatorfile}' ] && echo {}`;
  scene.addPlugin("a", undefined, { ADD });
  setTimeout(() => Deno.writeTextFileSync(readinessindicatorfile, ""), 100);
  const keys = { ...both(scene), readinessindicatorfile };
  assertSuccess(await scene.run("ADD", keys));
  assertEquals(scene.story, ADDS);
});

test("multus.add() writes a log file", async (scene) => {
  const logFile = `${scene.hosts.directory}/multus.log`;
  const keys = { ...both(scene), logFile, logLevel: "verbose" };
  await scene.run("ADD", { ...keys, logToStderr: false });
  const [line, ...others] = Deno.readTextFileSync(logFile).trim().split("\n");
  assert(line);
  assertEquals(others, []);
  assertStringIncludes(line, " [verbose] msg=done command=ADD ");
  assertStringIncludes(line, `containerId=${CONTAINER} ifName=eth0 `);
});

test("multus.add() reports that it cannot read a pod's annotations", async (scene) => {
  const keys = { ...both(scene), logLevel: "verbose" };
  const CNI_ARGS = "K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0";
  const { stderr } = await scene.run("ADD", keys, { env: { CNI_ARGS } });
  assertStringIncludes(stderr, "[verbose] msg=\"No kubeconfig, so the pod's");
});

test("multus.check() checks recorded attachments, whatever the current configuration", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  const { delegates: [first] } = both(scene);
  assert(first);
  assertSuccess(await scene.run("CHECK", { delegates: [first] }));
  assertEquals(scene.story.slice(2), ["a CHECK eth0", "b CHECK net1"]);
  const { stdin } = scene.call("b", "CHECK") ?? {};
  assertEquals(stdin.prevResult.ips[0].address, "1.1.1.3/24");
});

test("multus.check() reports the differences of all networks", async (scene) => {
  const answers = { CHECK: `echo '{"code":999,"msg":"differs"}'; exit 1` };
  for (const type of ["a", "b"]) scene.addPlugin(type, "1.1.1.2/24", answers);
  assertSuccess(await scene.run("ADD", both(scene)));
  const { json } = await scene.run("CHECK", both(scene));
  assertEquals(json.code, 999);
  assertEquals(`${json.msg}\n${json.details}`.match(/differs/g)?.length, 2);
});

test("multus.check() reports the differences that it found before it is aborted", async (scene) => {
  const CHECK = `echo '{"code":999,"msg":"differs"}'; exit 1`;
  scene.addPlugin("a", "1.1.1.2/24", { CHECK });
  assertSuccess(await scene.run("ADD", both(scene)));
  const controller = new AbortController();
  using stack = new DisposableStack();
  stack.defer(intercept(
    NetworkRuntime.prototype,
    "checkNetworkList",
    async (_, work) => {
      try {
        return await work();
      } finally {
        controller.abort();
      }
    },
  ));
  const { signal } = controller;
  const { json } = await scene.run("CHECK", both(scene), { signal });
  assertEquals(json.code, 999);
  assertStringIncludes(json.msg, "differs");
  assertEquals(scene.story.slice(2), ["a CHECK eth0"]);
});

test("multus.check() fails if it is aborted before it checked all networks", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  const signal = AbortSignal.abort(new Error("told to"));
  const { exitCode, json } = await scene.run("CHECK", both(scene), { signal });
  assertEquals([exitCode, scene.story.slice(2)], [1, []]);
  assertStringIncludes(json.msg, "told to");
});

test("multus.check() without a scratch file checks the networks of every pod", async (scene) => {
  const directory = `${scene.hosts.directory}/net.d`;
  Deno.mkdirSync(directory);
  const conf = JSON.stringify(scene.conf("first", "a"));
  Deno.writeTextFileSync(`${directory}/10-first.conf`, conf);
  const rows: JsonObject[] = [{ clusterNetwork: directory }, both(scene)];
  for (const keys of rows) {
    assertSuccess(await scene.run("ADD", keys));
    Deno.removeSync(scene.scratchFile);
    assertSuccess(await scene.run("CHECK", keys));
  }
  assertEquals(scene.story, [
    "a ADD eth0",
    "a CHECK eth0",
    ...ADDS,
    "a CHECK eth0",
    "b CHECK net1",
  ]);
});

test("multus.del() skips plugins that ADD cannot have run", async (scene) => {
  const rows: JsonObject[] = [
    scene.conf("third", "no-such-plugin"),
    scene.conf("third", "../bin/a"),
    scene.conf("no / name", "a"),
  ];
  for (const row of rows) {
    const keys = { delegates: [...both(scene).delegates, row] };
    const before = scene.story.length;
    assertEquals((await scene.run("ADD", keys)).exitCode, 1);
    assertSuccess(await scene.run("DEL", keys));
    assertEquals(scene.story.slice(before), [...ADDS, ...DELS, ...DELS]);
    assertEquals(scene.remembered, []);
  }
});

/** Rewrites the configurations in the scratch file as Go's multus might. */
function rewriteScratch(
  scene: MultusScene,
  edit: (conf: JsonObject) => JsonObject,
): void {
  const entries = JSON.parse(Deno.readTextFileSync(scene.scratchFile));
  for (const entry of entries) {
    entry.Bytes = btoa(JSON.stringify(edit(JSON.parse(atob(entry.Bytes)))));
  }
  Deno.writeTextFileSync(scene.scratchFile, JSON.stringify(entries));
}

/** Keeps only the keys that Go's plugin type has. */
function strip(list: JsonObject): JsonObject {
  const plugins = list["plugins"] as JsonObject[];
  return {
    ...list,
    plugins: plugins.map(({ type }) => ({ type: type ?? "" })),
  };
}

for (const command of ["CHECK", "DEL"]) {
  test(`multus ${command} gives plugins what ADD gave them, though the scratch file lacks keys`, async (scene) => {
    const plugins = [{ type: "a", mode: "x" }, { type: "b", socket: "/run/b" }];
    const list = { name: "list", cniVersion: "1.0.0", plugins };
    assertSuccess(await scene.run("ADD", { delegates: [list] }));
    rewriteScratch(scene, strip);
    assertSuccess(await scene.run(command, { delegates: [list] }));
    assertEquals(scene.call("a", command)?.stdin.mode, "x");
    assertEquals(scene.call("b", command)?.stdin.socket, "/run/b");
  });
}

test("multus.del() runs plugins that only the scratch file has", async (scene) => {
  const list = { name: "list", cniVersion: "1.0.0", plugins: [{ type: "a" }] };
  assertSuccess(await scene.run("ADD", { delegates: [list] }));
  const appended = [{ type: "a" }, { type: "b", socket: "/run/b" }];
  rewriteScratch(scene, (conf) => ({ ...conf, plugins: appended }));
  assertSuccess(await scene.run("DEL", { delegates: [list] }));
  assertEquals(scene.story.slice(1), ["b DEL eth0", "a DEL eth0"]);
  assertEquals(scene.call("b", "DEL")?.stdin.socket, "/run/b");
});

test("multus.del() fails if a plugin that ADD ran is missing", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  const plugin = `${scene.plugins.directory.path}/b`;
  Deno.renameSync(plugin, `${plugin}.away`);
  const { exitCode, json } = await scene.run("DEL", both(scene));
  assertEquals(exitCode, 1);
  assertStringIncludes(json.msg, 'failed to find plugin "b"');
  Deno.renameSync(`${plugin}.away`, plugin);
  assertSuccess(await scene.run("DEL", both(scene)));
  assertEquals(scene.remembered, []);
});

/** Attaches the container as eth0, then as eth1 to another multus network. */
async function addBeside(scene: MultusScene): Promise<CallOutput> {
  scene.addPlugin("c", "1.1.1.4/24");
  assertSuccess(await scene.run("ADD", both(scene)));
  return await scene.run("ADD", other(scene), ETH1);
}

function other(scene: MultusScene): { delegates: JsonObject[] } {
  return { delegates: [scene.conf("third", "c")] };
}

const ETH1 = { env: { CNI_IFNAME: "eth1" } };

test("multus.del() keeps the container's other attachments", async (scene) => {
  assertSuccess(await addBeside(scene));
  assertSuccess(await scene.run("CHECK", both(scene)));
  assertSuccess(await scene.run("CHECK", other(scene), ETH1));
  const before = scene.story.length;
  assertSuccess(await scene.run("DEL", both(scene)));
  assertEquals(scene.story.slice(before), DELS);
  assertSuccess(await scene.run("CHECK", other(scene), ETH1));
  assertSuccess(await scene.run("DEL", other(scene), ETH1));
  assertEquals(scene.story.slice(-2), ["c CHECK eth1", "c DEL eth1"]);
  assertEquals(scene.remembered, []);
});

test("multus.del() finds the attachment if a later ADD replaced its scratch file", async (scene) => {
  scene.addPlugin("c", undefined, { ADD: "exit 1" });
  assertSuccess(await scene.run("ADD", both(scene)));
  assertEquals((await scene.run("ADD", other(scene), ETH1)).exitCode, 1);
  assertSuccess(await scene.run("DEL", both(scene)));
  assertEquals(scene.story.slice(-2), DELS);
  assertSuccess(await scene.run("DEL", other(scene), ETH1));
  assertEquals(scene.remembered, []);
});

test("multus.del() of an unknown interface does not affect others", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  assertSuccess(await scene.run("DEL", both(scene), ETH1));
  assertEquals(scene.story, ADDS);
  assertSuccess(await scene.run("DEL", both(scene)));
  assertEquals([scene.story, scene.remembered], [[...ADDS, ...DELS], []]);
});

test("multus.del() undoes recorded attachments, whatever the current configuration", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  const delegates = [scene.conf("other", "no-such-plugin")];
  assertSuccess(await scene.run("DEL", { delegates }));
  assertEquals([scene.story, scene.remembered], [[...ADDS, ...DELS], []]);
});

test("multus.del() succeeds a second time, silently", async (scene) => {
  await scene.run("ADD", both(scene));
  for (let time = 0; time < 2; time++) {
    const { exitCode, stdout, stderr } = await scene.run("DEL", both(scene));
    assertEquals([exitCode, stdout, stderr], [0, "", ""]);
  }
});

test("multus.del() succeeds for a container without a record, even if plugins fail", async (scene) => {
  scene.addPlugin("a", undefined, { DEL: "echo no >&2; exit 1" });
  const { exitCode, stdout, stderr } = await scene.run("DEL", both(scene));
  assertEquals([exitCode, stdout], [0, ""]);
  assertStringIncludes(stderr, "a container without a record");
  // Pods may be older than multus.
  assertEquals(scene.story, DELS);
});

test("multus.del() fails with its plugins as long as a scratch file exists, even a damaged one", async (scene) => {
  assertSuccess(await scene.run("ADD", both(scene)));
  Deno.writeTextFileSync(scene.scratchFile, "");
  Deno.removeSync(`${scene.cniDir}/results`, { recursive: true });
  scene.addPlugin("a", undefined, { DEL: "echo no >&2; exit 1" });
  assertEquals((await scene.run("DEL", both(scene))).exitCode, 1);
  scene.addPlugin("a");
  assertEquals((await scene.run("DEL", both(scene))).exitCode, 0);
  assertEquals(scene.remembered, []);
});

test("multus.del() without a record asks the API only if the record may be lost", async (scene) => {
  scene.putPod("net1");
  scene.addNetwork("test", "net1", "1.1.1.4/24");
  assertSuccess(await scene.runForPod("ADD", both(scene)));
  const podRequests = (): number =>
    scene.api.requestsOf("GET", /\/pods\/testpod$/).length;
  assertSuccess(await scene.runForPod("DEL", both(scene)));
  scene.api.clearRequests();
  assertSuccess(await scene.runForPod("DEL", both(scene)));
  assertEquals([podRequests(), scene.story.slice(-2)], [0, DELS]);
  Deno.removeSync(scene.cniDir, { recursive: true });
  assertSuccess(await scene.runForPod("DEL", both(scene)));
  assertEquals(podRequests(), 1);
  assertEquals(scene.story.slice(-3), ["net1 DEL net2", ...DELS]);
});

test("multus.del() needs neither a namespace nor valid arguments", async (scene) => {
  const rows: Record<string, string>[] = [
    { CNI_NETNS: "" },
    { CNI_NETNS: "/run/netns/gone" },
    { CNI_ARGS: "this is;no=list=of=pairs;K8S_POD_NAME:x" },
  ];
  for (const env of rows) {
    assertSuccess(await scene.run("ADD", both(scene)));
    assertSuccess(await scene.run("DEL", both(scene), { env }));
    assertEquals(scene.story.slice(-2), DELS);
    assertEquals(scene.remembered, []);
  }
});

test("multus.del() does not wait for the readiness file", async (scene) => {
  await scene.run("ADD", both(scene));
  const readinessindicatorfile = "/nonexistent/ready";
  assertSuccess(
    await scene.run("DEL", { ...both(scene), readinessindicatorfile }),
  );
  assertEquals(scene.remembered, []);
});

test("multus.del() works with a broken configuration", async (scene) => {
  await scene.run("ADD", both(scene));
  const keys = { delegates: "none", runtimeConfig: [], logOptions: 7 };
  const { exitCode, stdout } = await scene.run("DEL", keys);
  assertEquals([exitCode, stdout], [0, ""]);
  assertEquals([scene.story, scene.remembered], [[...ADDS, ...DELS], []]);
});
