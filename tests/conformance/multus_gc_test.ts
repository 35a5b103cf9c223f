// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * STATUS and GC of multus: rows 41 and 42 of the list, and what becomes of
 * containers that only multus remembers.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  CONTAINER,
  eachVersion,
  listFiles,
  MultusScene,
} from "../../plugins/multus/testing/scene.ts";
import type { PluginCall } from "../_harness/recording_plugins.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

/** Builds a row of a scene with plugins weave-net and other-plugin. */
function row(
  run: (scene: MultusScene) => Promise<void>,
  cniVersion = "1.1.0",
): Row {
  return async () => {
    await using scene = await MultusScene.start(cniVersion);
    scene.addPlugin("weave-net", "1.1.1.2/24");
    scene.addPlugin("other-plugin", "1.1.1.5/24");
    await run(scene);
  };
}

function both(scene: MultusScene): { delegates: JsonObject[] } {
  return {
    delegates: [
      scene.conf("weave1", "weave-net"),
      scene.conf("other1", "other-plugin"),
    ],
  };
}

/** A list of the plugin weave-net. */
function list(scene: MultusScene): { delegates: JsonObject[] } {
  const { type: _, ...conf } = scene.conf("weave1", "");
  return { delegates: [{ ...conf, plugins: [{ type: "weave-net" }] }] };
}

function assertQuiet({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals([exitCode, stdout, stderr], [0, "", ""]);
}

const NOT_AVAILABLE = { code: 50, msg: "I'm not ready", details: "see below" };

/** Asserts that STATUS ends as the plugin's. */
async function assertNotAvailable(
  scene: MultusScene,
  keys: JsonObject,
): Promise<void> {
  const STATUS = `echo '${
    JSON.stringify(NOT_AVAILABLE).replaceAll("'", `'\\''`)
  }'; exit 1`;
  scene.addPlugin("weave-net", undefined, { STATUS });
  const { exitCode, json } = await scene.run("STATUS", keys);
  assertEquals(exitCode, 1);
  assertEquals(json, { cniVersion: "1.1.0", ...NOT_AVAILABLE });
}

conformance("multus STATUS", {
  "41 STATUS runs the first delegate only": row(async (scene) => {
    assertQuiet(await scene.run("STATUS", both(scene)));
    assertEquals(scene.story, ["weave-net STATUS"]);
    const [call] = scene.plugins.calls;
    assertEquals([call?.containerId, call?.netns, call?.args], ["", "", ""]);
    assertEquals(call?.stdin, scene.conf("weave1", "weave-net"));
  }),
  "41 STATUS runs all plugins of a list": row(async (scene) => {
    const { delegates: [weave] } = list(scene);
    const plugins = [{ type: "weave-net" }, { type: "other-plugin" }];
    const delegates = [{ ...weave, plugins }];
    assertQuiet(await scene.run("STATUS", { delegates }));
    assertEquals(scene.story, ["weave-net STATUS", "other-plugin STATUS"]);
  }),
  "41 STATUS fails with code and text of a bare plugin": row((scene) =>
    assertNotAvailable(scene, both(scene))
  ),
  "41 STATUS fails with code and text of a list's plugin": row((scene) =>
    assertNotAvailable(scene, list(scene))
  ),
  "41 STATUS skips a delegate older than STATUS": row(async (scene) => {
    const delegates = [
      scene.conf("weave1", "weave-net", { cniVersion: "1.0.0" }),
    ];
    assertQuiet(await scene.run("STATUS", { delegates }));
    assertEquals(scene.story, []);
  }),
  "41 STATUS covers a cluster network from the API": row(async (scene) => {
    scene.addNetwork("kube-system", "weave", "1.1.1.2/24");
    const { kubeconfig } = scene;
    const keys = { kubeconfig, clusterNetwork: "weave" };
    assertQuiet(await scene.run("STATUS", keys));
    assertEquals(scene.story, ["weave STATUS"]);
  }),
  "41 STATUS fails at once without the readiness file": row(async (scene) => {
    const readinessindicatorfile = `${scene.hosts.directory}/ready`;
    const keys = { ...both(scene), readinessindicatorfile };
    const { exitCode, json } = await scene.run("STATUS", keys);
    assertEquals([exitCode, json.code], [1, 50]);
    assertEquals(
      json.msg,
      "Multus: have you checked that your default network is ready? " +
        `still waiting for readinessindicatorfile @ ${readinessindicatorfile}`,
    );
    assertEquals(scene.story, []);
    Deno.writeTextFileSync(readinessindicatorfile, "");
    assertQuiet(await scene.run("STATUS", keys));
  }),
  "41 STATUS needs the cluster network from the API": row(async (scene) => {
    await scene.api.stop();
    const { kubeconfig } = scene;
    const keys = { kubeconfig, clusterNetwork: "weave" };
    const { exitCode, json } = await scene.run("STATUS", keys);
    assertEquals([exitCode, json.code], [1, 50]);
  }),
  "STATUS does not ask the API about delegates": row(async (scene) => {
    const { kubeconfig } = scene;
    assertQuiet(await scene.run("STATUS", { kubeconfig, ...both(scene) }));
    assertEquals(scene.api.requests, []);
  }),
}, needsRoot);

conformance(
  "multus STATUS",
  eachVersion({
    "41 ADD of an unknown pod attaches nothing": async (cniVersion) => {
      await using scene = await MultusScene.start(cniVersion);
      scene.addPlugin("weave-net", "1.1.1.2/24");
      const delegates = [
        scene.conf("weave1", "weave-net", { cniVersion: "0.3.1" }),
      ];
      const added = await scene.runForPod("ADD", { delegates });
      assertEquals([added.exitCode, added.stderr], [0, ""], added.stdout);
      const sandbox = scene.hosts.sandbox.path;
      const hasVersion = cniVersion.startsWith("0.");
      assertEquals(added.json, {
        cniVersion,
        interfaces: [{ name: "eth0", sandbox }],
        ips: [{
          ...hasVersion && { version: "4" },
          address: "0.0.0.0/0",
          gateway: "0.0.0.0",
        }],
        ...hasVersion && { dns: {} },
      });
      assertEquals([scene.story, scene.remembered], [[], []]);
      const deleted = await scene.runForPod("DEL", { delegates });
      assertEquals(deleted.exitCode, 0);
    },
  }, ["0.3.1", "1.0.0", "1.1.0"]),
  needsRoot,
);

/** The only attachments that there are. */
const VALID = [
  { containerID: CONTAINER, ifname: "eth0" },
  { containerID: CONTAINER, ifname: "net1" },
];

function assertTold(call: PluginCall | undefined, valid: JsonObject[]): void {
  assert(call);
  const keys = ["cni.dev/valid-attachments", "cni.dev/attachments"];
  for (const key of keys) {
    assertEquals(new Set(call.stdin[key]), new Set(valid), key);
  }
}

conformance("multus GC", {
  "42 GC runs the first delegate with all cached": row(async (scene) => {
    await scene.run("ADD", both(scene));
    assertQuiet(await scene.run("GC", both(scene)));
    assertEquals(scene.story.slice(2), ["weave-net GC"]);
    assertTold(scene.plugins.calls.at(-1), VALID);
  }),
  "42 GC runs the plugin of a list": row(async (scene) => {
    await scene.run("ADD", list(scene));
    assertQuiet(await scene.run("GC", list(scene)));
    assertEquals(scene.story.slice(1), ["weave-net GC"]);
    assertTold(scene.plugins.calls.at(-1), VALID.slice(0, 1));
  }),
  "42 GC with nothing cached names no attachment": row(async (scene) => {
    assertQuiet(await scene.run("GC", both(scene)));
    assertTold(scene.call("weave-net", "GC"), []);
  }),
  "42 GC of a list that has none is nothing": row(async (scene) => {
    const { delegates: [weave] } = list(scene);
    const delegates = [{ ...weave, disableGC: true }];
    assertQuiet(await scene.run("GC", { delegates }));
    assertEquals(scene.story, []);
  }),
}, needsRoot);

/** Attaches two containers, as if long ago. */
async function attachTwo(scene: MultusScene): Promise<void> {
  for (const containerId of ["live", "stale"]) {
    const added = await scene.run("ADD", both(scene), {
      containerId,
      sandbox: scene.hosts.addNetns(),
      env: { CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=p" },
    });
    assertEquals(added.exitCode, 0, added.stdout);
  }
  makeOld(scene.cniDir);
}

/** Attaches a container as a runtime does that has a multus network of its own. */
async function attachBy(
  scene: MultusScene,
  network: string,
  containerId: string,
): Promise<void> {
  const added = await scene.run("ADD", { ...both(scene), name: network }, {
    containerId,
    sandbox: scene.hosts.addNetns(),
  });
  assertEquals(added.exitCode, 0, added.stdout);
  makeOld(scene.cniDir);
}

/** Lists the containers that plugins were asked to detach. */
function listDetached(scene: MultusScene): string[] {
  const calls = scene.plugins.calls.filter(({ command }) => command === "DEL");
  return [...new Set(calls.map(({ containerId }) => containerId))];
}

/** Creates a container's files what Go's multus would have written. */
function forgetOwner(scene: MultusScene, containerId: string): void {
  const path = `${scene.cniDir}/${containerId}`;
  const [{ multusNetwork: _, ...first }, ...others] = JSON.parse(
    Deno.readTextFileSync(path),
  );
  Deno.writeTextFileSync(path, JSON.stringify([first, ...others]));
  makeOld(scene.cniDir);
}

/** Ends a container's sandbox, as far as libcni's cache can tell. */
function endSandbox(scene: MultusScene, containerId: string): void {
  for (const file of scene.remembered) {
    if (!file.startsWith("results/") || !file.includes(containerId)) continue;
    const path = `${scene.cniDir}/${file}`;
    const attachment = JSON.parse(Deno.readTextFileSync(path));
    attachment.netns = "/run/netns/gone";
    Deno.writeTextFileSync(path, JSON.stringify(attachment));
  }
  makeOld(scene.cniDir);
}

/** The runtime may not know attachments that are younger than the process. */
function makeOld(directory: string): void {
  const files = listFiles(directory).map((name) => `${directory}/${name}`);
  const results = listFiles(`${directory}/results`)
    .map((name) => `${directory}/results/${name}`);
  const long = performance.timeOrigin / 1000 - 3600;
  for (const path of [...files, ...results]) Deno.utimeSync(path, long, long);
}

/** Runs GC as a runtime that knows these attachments. */
function collect(
  scene: MultusScene,
  ...valid: [containerId: string, ifName: string][]
): Promise<CallOutput> {
  return collectSince(undefined, scene, ...valid);
}

/** Runs GC in a call that began at a time. */
function collectSince(
  startedAt: Date | undefined,
  scene: MultusScene,
  ...valid: [containerId: string, ifName: string][]
): Promise<CallOutput> {
  return scene.run("GC", {
    ...both(scene),
    "cni.dev/valid-attachments": valid.map(([containerID, ifname]) => ({
      containerID,
      ifname,
    })),
  }, startedAt === undefined ? {} : { startedAt });
}

const LIVE = [
  "live",
  "results/other1-live-net1",
  "results/weave1-live-eth0",
];
const STALE = LIVE.map((name) => name.replace("live", "stale"));
const LIVE_VALID = [
  { containerID: "live", ifname: "eth0" },
  { containerID: "live", ifname: "net1" },
];

conformance("multus GC", {
  "a container unknown to the runtime is detached": row(async (scene) => {
    await attachTwo(scene);
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(scene.story.slice(4), [
      "other-plugin DEL net1",
      "weave-net DEL eth0",
      "weave-net GC",
    ]);
    assertEquals(scene.remembered, LIVE);
    const deleted = scene.call("weave-net", "DEL");
    assertEquals(deleted?.containerId, "stale");
    assertStringIncludes(deleted?.args ?? "", "K8S_POD_NAME=p");
  }),
  "the runtime's containers are valid to the plugin": row(async (scene) => {
    await attachTwo(scene);
    assertQuiet(await collect(scene, ["live", "eth0"], ["other", "eth0"]));
    assertTold(scene.call("weave-net", "GC"), [
      ...LIVE_VALID,
      { containerID: "other", ifname: "eth0" },
    ]);
  }),
  "without valid attachments everything is kept": row(async (scene) => {
    await attachTwo(scene);
    assertQuiet(await scene.run("GC", both(scene)));
    assertEquals(scene.story.slice(4), ["weave-net GC"]);
    assertEquals(scene.remembered.length, 6);
  }),
  "a runtime that has nothing keeps nothing": row(async (scene) => {
    await attachTwo(scene);
    assertQuiet(await collect(scene));
    assertEquals(scene.remembered, []);
    assertTold(scene.call("weave-net", "GC"), []);
  }),
  "a container that was attached since the process began is detached": row(
    async (scene) => {
      await attachTwo(scene);
      const now = Date.now() / 1000;
      for (const name of STALE) {
        Deno.utimeSync(`${scene.cniDir}/${name}`, now, now);
      }
      const live = [["live", "eth0"] as [string, string]];
      assertQuiet(
        await collectSince(new Date(Date.now() - 60_000), scene, ...live),
      );
      assertEquals(scene.remembered.length, 6);
      assertQuiet(await collectSince(new Date(Date.now() + 1), scene, ...live));
      assertEquals(scene.remembered, LIVE);
    },
  ),
  "a container that was attached meanwhile is kept": row(async (scene) => {
    await attachTwo(scene);
    const now = Date.now() / 1000 + 1;
    Deno.utimeSync(`${scene.cniDir}/stale`, now, now);
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(scene.remembered.length, 6);
  }),
  "a container with only a scratch file is detached": row(async (scene) => {
    await attachTwo(scene);
    Deno.removeSync(`${scene.cniDir}/results`, { recursive: true });
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(scene.story.slice(4), [
      "other-plugin DEL net1",
      "weave-net DEL eth0",
      "weave-net GC",
    ]);
    assertEquals(scene.remembered, ["live"]);
  }),
  "one only in libcni's cache is detached once gone": row(async (scene) => {
    await attachTwo(scene);
    Deno.removeSync(`${scene.cniDir}/stale`);
    // It may belong to another program, and be alive.
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(listDetached(scene), []);
    endSandbox(scene, "stale");
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(scene.story.slice(5), [
      "other-plugin DEL net1",
      "weave-net DEL eth0",
      "weave-net GC",
    ]);
    assertEquals(scene.remembered, LIVE);
  }),
  "a network's GC keeps another's in the same cniDir": row(async (scene) => {
    await attachBy(scene, "a", "cont-a");
    await attachBy(scene, "b", "cont-b");
    const keys = { ...both(scene), "cni.dev/valid-attachments": [] };
    assertQuiet(await scene.run("GC", { ...keys, name: "a" }));
    assertEquals(listDetached(scene), ["cont-a"]);
    // The plugin serves both networks, and is told of what is left of both.
    assertTold(scene.call("weave-net", "GC"), [
      { containerID: "cont-b", ifname: "eth0" },
      { containerID: "cont-b", ifname: "net1" },
    ]);
    assertQuiet(await scene.run("GC", { ...keys, name: "b" }));
    assertEquals(listDetached(scene), ["cont-a", "cont-b"]);
    assertEquals(scene.remembered, []);
  }),
  "GC keeps another runtime's and Go's containers": row(async (scene) => {
    await attachBy(scene, "kubernetes", "pod");
    await attachBy(scene, "podman", "theirs");
    await attachBy(scene, "podman", "theirs-go");
    forgetOwner(scene, "theirs-go");
    await attachBy(scene, "podman", "theirs-lost");
    Deno.removeSync(`${scene.cniDir}/theirs-lost`);
    const before = scene.remembered;
    const collectBy = (name: string, containerID: string) =>
      scene.run("GC", {
        ...both(scene),
        name,
        "cni.dev/valid-attachments": [{ containerID, ifname: "eth0" }],
      });
    assertQuiet(await collectBy("kubernetes", "pod"));
    assertEquals([listDetached(scene), scene.remembered], [[], before]);
    assertQuiet(await collectBy("podman", "theirs"));
    assertEquals([listDetached(scene), scene.remembered], [[], before]);
  }),
  "one of Go's multus is detached once gone": row(async (scene) => {
    await attachTwo(scene);
    forgetOwner(scene, "stale");
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(listDetached(scene), []);
    endSandbox(scene, "stale");
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(listDetached(scene), ["stale"]);
    assertEquals(scene.remembered, LIVE);
  }),
  "one with only Go's scratch file is kept": row(async (scene) => {
    await attachTwo(scene);
    forgetOwner(scene, "stale");
    Deno.removeSync(`${scene.cniDir}/results`, { recursive: true });
    assertQuiet(await collect(scene, ["live", "eth0"]));
    assertEquals(listDetached(scene), []);
    assertEquals(scene.remembered, ["live", "stale"]);
  }),
  "a shared container loses stale attachments only": row(async (scene) => {
    scene.addPlugin("third-plugin", "1.1.1.7/24");
    await attachBy(scene, "a", "shared");
    const delegates = [scene.conf("third1", "third-plugin")];
    const added = await scene.run("ADD", { delegates, name: "b" }, {
      containerId: "shared",
      env: { CNI_IFNAME: "eth1" },
    });
    assertEquals(added.exitCode, 0, added.stdout);
    makeOld(scene.cniDir);
    const keys = { ...both(scene), "cni.dev/valid-attachments": [] };
    assertQuiet(await scene.run("GC", { ...keys, name: "b" }));
    assertEquals(scene.story.slice(3), [
      "third-plugin DEL eth1",
      "weave-net GC",
    ]);
    assertEquals(scene.remembered, [
      "results/other1-shared-net1",
      "results/weave1-shared-eth0",
    ]);
  }),
  "only a container that cannot be detached is kept": row(async (scene) => {
    await attachTwo(scene);
    const DEL = '[ "$CNI_IFNAME" = eth0 ] || exit 0; echo no >&2; exit 1';
    scene.addPlugin("weave-net", "1.1.1.2/24", { DEL });
    const { exitCode, json } = await collect(scene, ["live", "eth0"]);
    assertEquals(exitCode, 1);
    assertStringIncludes(json.msg, "no");
    assertEquals(scene.story.at(-1), "weave-net GC");
    assertEquals(scene.remembered, [
      ...LIVE.slice(0, 1),
      ...STALE.slice(0, 1),
      "results/other1-live-net1",
      "results/weave1-live-eth0",
      "results/weave1-stale-eth0",
    ]);
    // What is left of it is in use.
    assertTold(scene.call("weave-net", "GC"), [
      ...LIVE_VALID,
      { containerID: "stale", ifname: "eth0" },
    ]);
  }),
  "one with the host's namespace is detached without": row(async (scene) => {
    await attachTwo(scene);
    for (const file of scene.remembered) {
      if (!/^results.*stale/.test(file)) continue;
      const path = `${scene.cniDir}/${file}`;
      const attachment = JSON.parse(Deno.readTextFileSync(path));
      attachment.netns = scene.hosts.host.path;
      Deno.writeTextFileSync(path, JSON.stringify(attachment));
    }
    makeOld(scene.cniDir);
    const { exitCode, stdout } = await collect(scene, ["live", "eth0"]);
    assertEquals([exitCode, stdout], [0, ""]);
    const deleted = scene.plugins.calls
      .filter(({ command }) => command === "DEL");
    assertEquals(deleted.map(({ netns }) => netns), ["", ""]);
    assertEquals(scene.remembered, LIVE);
  }),
  "GC detaches even if the cluster network is unknown": row(async (scene) => {
    await attachTwo(scene);
    await scene.api.stop();
    const { exitCode, json } = await scene.run("GC", {
      kubeconfig: scene.kubeconfig,
      clusterNetwork: "weave",
      "cni.dev/valid-attachments": LIVE_VALID,
    });
    assertEquals([exitCode, json.code], [1, 11]);
    assertEquals(scene.remembered, LIVE);
  }),
}, needsRoot);
