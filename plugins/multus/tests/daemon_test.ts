/**
 * multus with `multus daemon` on its node, both as executables, and a cluster.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { MultusDaemon } from "../testing/daemon.ts";
import {
  BIN,
  type HostOutput,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** What nothing may take, however slow the machine is, in ms. */
const DEADLINE_MS = 60_000;

/** Methods that change something. */
const WRITES = ["PATCH", "PUT", "POST"];

/** A node with a daemon. */
class Scene implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: MultusDaemon;
  #pods = 0;

  private constructor(host: MultusHost, daemon: MultusDaemon) {
    this.host = host;
    this.daemon = daemon;
  }

  static async start(): Promise<Scene> {
    const host = await MultusHost.start();
    return new Scene(host, await MultusDaemon.start(host));
  }

  /** Creates pods with network `green` that the daemon has in memory. */
  async addPods(...names: readonly string[]): Promise<HostPod[]> {
    const pods = names.map((name) =>
      this.host.addPod(name, { networks: "green" })
    );
    this.#pods += pods.length;
    await eventually(
      "the daemon has the pods in memory",
      async () => await this.daemon.countPods() === this.#pods,
    );
    this.host.api.clearRequests();
    return pods;
  }

  async addPod(name: string): Promise<HostPod> {
    const [pod] = await this.addPods(name);
    return pod as HostPod;
  }

  /** Calls multus, which hands the call to the daemon. */
  call(
    command: string,
    pod: HostPod,
    keys: JsonObject = {},
  ): Promise<HostOutput> {
    const { socketDir: daemonSocketDir } = this.daemon;
    return this.host.call(command, pod, { keys: { daemonSocketDir, ...keys } });
  }

  /** Calls multus, which must succeed and print nothing on stderr. */
  async succeed(
    command: string,
    pod: HostPod,
    keys: JsonObject = {},
  ): Promise<HostOutput> {
    const output = await this.call(command, pod, keys);
    const { code, stdout, stderr } = output;
    assertEquals([code, stderr], [0, ""], `${command}: ${stdout}`);
    return output;
  }

  /** Attaches a pod, checks that, and detaches it. */
  async attachAndDetach(pod: HostPod): Promise<void> {
    await this.succeed("ADD", pod);
    this.assertAttached(pod);
    await this.succeed("DEL", pod);
    assertEquals(this.host.remainsOf(pod), []);
  }

  assertAttached(pod: HostPod): void {
    assertEquals(this.host.interfaces(pod), ["eth0", "lo", "net1"]);
    const names = this.host.status(pod)
      .map(({ name }: { name: string }) => name);
    assertEquals(names, ["pods", "default/green"]);
  }

  /** Lists the requests that the API server got, without the watches. */
  get requests(): string[] {
    return this.host.api.requests
      .filter(({ path }) => !path.includes("watch=1"))
      .map(({ method }) => method).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

hostTest("the daemon writes a pod's status, and reads nothing", async () => {
  await using scene = await Scene.start();
  const { host: { api } } = scene;
  const pod = await scene.addPod("web");
  const { connections } = api;
  await scene.succeed("ADD", pod);
  scene.assertAttached(pod);
  await eventually("events arrive", () => api.events.length === 2);
  assertEquals(scene.requests, ["PATCH", "POST", "POST"]);
  // At most one for each concurrent request.
  assert(api.connections <= connections + 2, String(api.connections));
  api.clearRequests();
  await scene.succeed("CHECK", pod, { prevResult: {} });
  await scene.succeed("DEL", pod);
  assertEquals([scene.requests, scene.host.remains()], [[], []]);
});

hostTest("the daemon helps a plugin whose kubeconfig is unusable", async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  const keys = { kubeconfig: "/nowhere/at/all" };
  await scene.succeed("ADD", pod, keys);
  scene.assertAttached(pod);
  await scene.daemon.kill();
  await scene.succeed("DEL", pod, keys);
  const output = await scene.call("ADD", pod, keys);
  assertEquals([output.code, output.json.code], [1, 7], output.stdout);
  assertMatch(output.json.msg, /"\/nowhere\/at\/all"/);
});

hostTest("DEL uses the daemon's memory without a record", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  const pod = await scene.addPod("web");
  await scene.succeed("ADD", pod);
  await Deno.remove(host.cniDir, { recursive: true });
  host.api.clearRequests();
  await scene.succeed("DEL", pod);
  assertEquals(host.remainsOf(pod), []);
  assertEquals(host.api.requestsOf("GET"), []);
});

hostTest("the daemon posts its events before it ends", async () => {
  await using scene = await Scene.start();
  const { api } = scene.host;
  const pod = await scene.addPod("web");
  const fault = api.fault({ method: "POST", status: 503 });
  await scene.succeed("ADD", pod);
  await eventually("it is refused", () => fault.hits > 0);
  fault.clear();
  const { code } = await scene.daemon.end();
  assertEquals([code, api.events.length], [0, 2], scene.daemon.log);
});

hostTest("the daemon stops without an API server", async () => {
  await using scene = await Scene.start();
  await scene.host.api.blackhole();
  const { code, tookMs } = await scene.daemon.end();
  assertEquals(code, 0, scene.daemon.log);
  assert(tookMs < DEADLINE_MS, `${tookMs} ms`);
});

hostTest("multus posts events on the connection that is open", async () => {
  await using host = await MultusHost.start();
  const pod = host.addPod("web", { networks: "green" });
  const { connections } = host.api;
  await host.succeed("ADD", pod);
  assertEquals(host.api.events.length, 2);
  assertEquals(host.api.connections, connections + 1);
});

hostTest("a pod does not wait for events", async () => {
  await using scene = await Scene.start();
  const pods = await scene.addPods("web-1", "web-2", "web-3");
  scene.host.api.fault({ method: "POST", delayMs: 600_000 });
  for (const pod of pods) await scene.attachAndDetach(pod);
});

hostTest("an unreachable API server fails ADD only, in time", async (t) => {
  const troubles: [string, (host: MultusHost) => Promise<void>][] = [
    ["refuses connections", ({ api }) => api.stop()],
    ["does not answer", ({ api }) => api.blackhole()],
  ];
  await eachRow(t, troubles, async ([, begin]) => {
    await using scene = await Scene.start();
    const pods = await scene.addPods("attached", "late");
    const [attached, late] = pods as [HostPod, HostPod];
    await scene.succeed("ADD", attached);
    await begin(scene.host);
    const { code, json, ms } = await scene.call("ADD", late, {
      apiTimeoutSeconds: 20,
    });
    assertEquals([code, json.code], [1, 11]);
    assert(ms < DEADLINE_MS, `${ms} ms`);
    await scene.call("DEL", late);
    assertEquals(scene.host.remainsOf(late), []);
    const deleted = await scene.succeed("DEL", attached);
    assert(deleted.ms < DEADLINE_MS, `${deleted.ms} ms`);
    assertEquals(scene.host.remains(), []);
    assertEquals(await scene.daemon.countPods(), 2);
    await scene.host.api.restart();
    await eventually("it watches", () => scene.daemon.isWatching());
    await scene.attachAndDetach(late);
  });
});

hostTest("the daemon waits for a slow API server", async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  scene.host.api.fault({ method: "PATCH", delayMs: 900 });
  await scene.succeed("ADD", pod);
  scene.assertAttached(pod);
});

hostTest("a restart of the API server fails no ADD", async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  await scene.host.api.stop();
  const adding = scene.succeed("ADD", pod);
  await eventually(
    "only the status is missing",
    () => scene.host.interfaces(pod).includes("net1"),
  );
  await scene.host.api.restart();
  await adding;
  scene.assertAttached(pod);
});

hostTest("a new pod of the same name is a different pod", async (t) => {
  await using scene = await Scene.start();
  const { api } = scene.host;
  const old = await scene.addPod("web");
  // The daemon learns of no more changes.
  api.fault({ path: /watch=1/, status: 403 });
  api.endWatches();
  const annotations = { "k8s.v1.cni.cncf.io/networks": "blue-2" };
  api.putNad("default", "blue-2", {
    cniVersion: "1.0.0",
    type: "bridge",
    bridge: "br-blue",
  });
  const metadata = { namespace: "default", name: "web", uid: "new-uid" };
  api.putPod({ metadata: { ...metadata, annotations } });
  await t.step("ADD of the old pod is refused", async () => {
    const { code, json } = await scene.call("ADD", old);
    assertEquals([code, json.code], [1, 4]);
    assertMatch(json.msg, /expected pod UID "uid-of-web"/);
  });
  await t.step("the new pod gets its own networks", async () => {
    await scene.succeed("ADD", { ...old, uid: "new-uid" } as HostPod);
    const names = scene.host.status(old)
      .map(({ name }: { name: string }) => name);
    assertEquals(names, ["pods", "default/blue-2"]);
  });
});

hostTest("the daemon works with fewer permissions", async (t) => {
  await t.step("no watch", async () => {
    await using host = await MultusHost.start();
    host.api.forbid("watch", "*");
    await using daemon = MultusDaemon.spawn(host);
    await eventually("listens", () => daemon.log.includes("msg=listening"));
    const pod = host.addPod("web", { networks: "green" });
    const keys = { daemonSocketDir: daemon.socketDir };
    await host.succeed("ADD", pod, { keys });
    assertEquals(host.status(pod).length, 2);
  });
  await t.step("no PATCH", async () => {
    await using scene = await Scene.start();
    scene.host.api.forbid("patch", "pods/status");
    const pod = scene.host.addPod("web", {
      networks: "green",
      object: { status: { phase: "Pending", message: "keep me" } },
    });
    await scene.attachAndDetach(pod);
    // It is written back as a whole, so it must have been read as a whole.
    const written = scene.host.api.pod("default", "web");
    assertEquals(written?.["status"]?.message, "keep me");
    assertEquals(written?.["spec"]?.nodeName, "node1");
  });
});

hostTest("the daemon follows credentials that are replaced", async (t) => {
  await eachRow(t, ["token", "tokenFile"] as const, async (kind) => {
    await using host = await MultusHost.start();
    const directory = `${host.hosts.directory}/creds`;
    await Deno.mkdir(directory);
    const old = host.api.addToken();
    const kubeconfig = host.api.writeKubeconfig(directory, kind, {
      token: old,
    });
    await using daemon = await MultusDaemon.start(host, kubeconfig);
    const pod = host.addPod("web", { networks: "green" });
    host.api.writeKubeconfig(directory, kind);
    host.api.revokeToken(old);
    const keys = {
      daemonSocketDir: daemon.socketDir,
      kubeconfig: "/nowhere/at/all",
    };
    // It does not read them again each time that it is refused.
    await eventually("it is let in", async () => {
      const { code } = await host.call("ADD", pod, { keys });
      if (code !== 0) await host.succeed("DEL", pod, { keys });
      return code === 0;
    });
    assertEquals(host.status(pod).length, 2);
  });
});

hostTest("the daemon serves pods without a kubeconfig yet", async () => {
  await using host = await MultusHost.start();
  const kubeconfig = `${host.hosts.directory}/later`;
  await using daemon = MultusDaemon.spawn(host, kubeconfig);
  await eventually("listens", () => daemon.log.includes("msg=listening"));
  const keys = { daemonSocketDir: daemon.socketDir };
  const early = host.addPod("early", { networks: "green" });
  await host.succeed("ADD", early, { keys });
  assertEquals(host.status(early).length, 2);
  await Deno.copyFile(host.kubeconfig, kubeconfig);
  await eventually("it watches", () => daemon.isWatching());
  await host.succeed("DEL", early, { keys });
  assertEquals(host.remains(), []);
});

hostTest("the daemon serves 30 pods at the same time", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  const names = Array.from({ length: 30 }, (_, index) => `web-${index}`);
  const pods = await scene.addPods(...names);
  await Promise.all(pods.map((pod) => scene.succeed("ADD", pod)));
  for (const pod of pods) scene.assertAttached(pod);
  await eventually("events arrive", () => host.api.events.length === 60);
  assertEquals(scene.requests.filter((method) => !WRITES.includes(method)), []);
  const patches = host.api.distinctRequests
    .filter(({ method }) => method === "PATCH");
  assertEquals(patches.length, 30);
  await Promise.all(pods.map((pod) => scene.succeed("DEL", pod)));
  assertEquals(host.remains(), []);
});

hostTest("multus daemon prints why it cannot run", async (t) => {
  await t.step("a wrong flag", async () => {
    const { code, stdout, stderr } = await run(["daemon", "--unheard-of=x"]);
    assertEquals([code, stdout], [1, ""]);
    assertMatch(stderr, /unknown flag --unheard-of; see multus daemon --help/);
    assert(!/\n\s+at /.test(stderr), stderr);
  });
  await t.step("help", async () => {
    const { code, stdout } = await run(["daemon", "--help"]);
    assertEquals(code, 0);
    assertMatch(stdout, /--socket-dir DIRECTORY/);
  });
});

async function run(
  args: readonly string[],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(`${BIN}/multus`, {
    args: [...args],
    clearEnv: true,
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}
