import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Command } from "../../../cni/call/args.ts";
import { CniError } from "../../../base/error.ts";
import type { Invoker } from "../../../cni/call/context.ts";
import { dispatch } from "../../../cni/skel.ts";
import type { Pod } from "../../../kube/types.ts";
import { createMultus } from "../plugin.ts";
import type { Cluster } from "./cluster.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { eachAtOnce } from "../../../tests/_harness/repetition.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import type { KubeApi } from "../../../kube/testing/kube_api.ts";
import { kubeErrorOf, KubeScene } from "../../../kube/testing/kube_scene.ts";
import { ResidentCluster } from "./resident_cluster.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const POD = /\/pods\/p\d+$/;
const DEFINITION = /\/network-attachment-definitions\/\w+$/;

/** A resident cluster with the pods of node1, and its server with pod test/p1. */
class Scene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly cluster: ResidentCluster;
  readonly logged: string[] = [];
  readonly kubeconfig: string;
  readonly #kube: KubeScene;
  readonly #controller = new AbortController();
  readonly #running: Promise<void>;

  private constructor(kube: KubeScene, kubeconfig: string) {
    this.#kube = kube;
    this.api = kube.api;
    this.kubeconfig = kubeconfig;
    const log = (message: string): void => void this.logged.push(message);
    const cluster = ResidentCluster.open({
      kubeconfig,
      env: {},
      nodeName: "node1",
      log: { info: log, warn: log },
    });
    assert(cluster !== undefined);
    this.cluster = cluster;
    this.#running = cluster.run(this.#controller.signal);
  }

  static async start(): Promise<Scene> {
    const kube = await KubeScene.start();
    const kubeconfig = kube.api.writeKubeconfig(kube.directory.path);
    const scene = new Scene(kube, kubeconfig);
    kube.api.putNad("test", "green", { cniVersion: "1.0.0", type: "green" });
    await scene.waitForWatches();
    kube.api.clearRequests();
    return scene;
  }

  get directory(): string {
    return this.#kube.directory.path;
  }

  async waitForWatches(): Promise<void> {
    await eventually(
      "all is in memory",
      () =>
        this.cluster.isCurrent && this.api.watchCount === 2 &&
        this.cluster.watches.every(({ size }) => size > 0),
    );
  }

  /** Breaks the watches for good. */
  async breakWatches(): Promise<void> {
    this.api.fault({ path: /watch=1/, status: 403 });
    this.api.endWatches();
    await eventually("they are broken", () => !this.cluster.isCurrent);
    this.api.clearRequests();
  }

  /** Opens the cluster of a call. */
  open(podUid: string, command: Command = "ADD", kubeconfig?: string): Cluster {
    return this.cluster.openCluster({ env: {}, podUid, command, kubeconfig });
  }

  /** Returns the UID of pod test/p1 for a call. */
  async findPod(podUid: string, command: Command = "ADD"): Promise<unknown> {
    await using cluster = this.open(podUid, command);
    const client = await cluster.client();
    const pod = await client.getPod("test", "p1");
    return pod.metadata?.uid;
  }

  putPod(
    uid: string,
    name = "p1",
    annotations: Record<string, string> = {},
  ): Pod {
    const pod = { metadata: { namespace: "test", name, uid, annotations } };
    this.api.putPod(pod);
    return pod;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.#running;
    this.cluster[Symbol.dispose]();
    await this.#kube[Symbol.asyncDispose]();
  }
}

Deno.test("ResidentCluster.open() needs a kubeconfig or a service account", () => {
  const options = {
    kubeconfig: "",
    nodeName: "",
    log: { info(): void {}, warn(): void {} },
  };
  const env = { KUBERNETES_SERVICE_HOST: "h", KUBERNETES_SERVICE_PORT: "1" };
  assertEquals(ResidentCluster.open({ ...options, env: {} }), undefined);
  using inPod = ResidentCluster.open({ ...options, env });
  using outside = ResidentCluster.open({
    ...options,
    env: {},
    kubeconfig: "/k",
  });
  assert(inPod !== undefined && outside !== undefined);
});

Deno.test("ResidentCluster returns objects from memory", async () => {
  await using scene = await Scene.start();
  assertEquals(await scene.findPod("u1"), "u1");
  await using cluster = scene.open("u1");
  const client = await cluster.client();
  const { spec } = await client.getNetworkAttachmentDefinition("test", "green");
  assertEquals(JSON.parse(spec?.config ?? "").type, "green");
  assertEquals(scene.api.requests, []);
});

Deno.test("ResidentCluster requests a pod that is not in memory", async (t) => {
  await using scene = await Scene.start();
  await t.step("the runtime passed no UID", async () => {
    assertEquals(await scene.findPod(""), "u1");
    assertEquals(scene.api.requestsOf("GET", POD).length, 1);
  });
  await t.step("the UID of a different pod", async () => {
    assertEquals(await scene.findPod("u2"), "u1");
    assertEquals(scene.api.requestsOf("GET", POD).length, 2);
  });
  await t.step("the server does not have the pod", async () => {
    scene.api.removePod("test", "p1");
    await eventually(
      "it is gone from memory",
      () => scene.cluster.watches.some(({ size }) => size === 0),
    );
    const { status } = await kubeErrorOf(scene.findPod("u1"));
    assertEquals(status, 404);
  });
});

Deno.test("ResidentCluster waits for a pod that a watch reports a little later", async () => {
  await using scene = await Scene.start();
  const finding = scene.findPod("u2");
  scene.putPod("u2");
  assertEquals(await finding, "u2");
});

Deno.test("ResidentCluster requests a definition that is not in memory", async () => {
  await using scene = await Scene.start();
  await scene.breakWatches();
  scene.api.putNad("test", "blue", { cniVersion: "1.0.0", type: "blue" });
  await using cluster = scene.open("u1");
  const client = await cluster.client();
  const { metadata } = await client.getNetworkAttachmentDefinition(
    "test",
    "blue",
  );
  assertEquals(metadata?.name, "blue");
  assertEquals(scene.api.requestsOf("GET", DEFINITION).length, 1);
});

Deno.test("ResidentCluster prefers the server to memory without a watch", async (t) => {
  await using scene = await Scene.start();
  await scene.breakWatches();
  const annotations = { note: "newer" };
  scene.putPod("u1", "p1", annotations);
  const find = async (): Promise<unknown> => {
    await using cluster = scene.open("u1");
    const client = await cluster.client();
    const { metadata } = await client.getPod("test", "p1");
    return metadata?.annotations?.["note"];
  };
  await t.step("the server answers", async () => {
    assertEquals(await find(), "newer");
  });
  await eachRow(t, [401, 429, 500, 503], async (status) => {
    const fault = scene.api.fault({ path: POD, status });
    assertEquals(await find(), undefined);
    fault.clear();
  }, (status) => `it answers ${status}`);
  await t.step("the server does not answer", async () => {
    await scene.api.stop();
    assertEquals(await find(), undefined);
  });
});

Deno.test("ResidentCluster queues events", async () => {
  await using scene = await Scene.start();
  const fault = scene.api.fault({ method: "POST", status: 503 });
  await using cluster = scene.open("u1");
  const client = await cluster.client();
  for (const name of ["e1", "e2"]) {
    const involvedObject = { kind: "Pod", namespace: "test", name: "p1" };
    const metadata = { name, namespace: "test" };
    await client.createEvent("test", { metadata, involvedObject });
  }
  await eventually("it is refused", () => fault.hits > 0);
  assertEquals(scene.cluster.waitingEvents, 2);
  fault.clear();
  await scene.cluster.finish(60_000);
  assertEquals(scene.api.events.length, 2);
});

Deno.test("ResidentCluster uses the call's credentials if its own are refused", async (t) => {
  await using scene = await Scene.start();
  const write = async (kubeconfig?: string): Promise<void> => {
    await using cluster = scene.open("u1", "ADD", kubeconfig);
    const client = await cluster.client();
    const pod = { namespace: "test", name: "p1", uid: "u1" };
    await client.setPodAnnotations(pod, { note: "here" });
  };
  scene.api.fault({ method: "PATCH", status: 401, times: 1 });
  await t.step("the call has any", async () => await write(scene.kubeconfig));
  scene.api.fault({ method: "PATCH", status: 401 });
  await t.step("the call has no credentials", async () => {
    assertEquals((await kubeErrorOf(write())).status, 401);
  });
});

Deno.test("ResidentCluster starts without a usable kubeconfig, and finds it later", async () => {
  await using scene = await Scene.start();
  const path = `${scene.directory}/later`;
  const controller = new AbortController();
  const log = { info(): void {}, warn(): void {} };
  using late = ResidentCluster.open({
    kubeconfig: path,
    env: {},
    nodeName: "node1",
    log,
  });
  assert(late !== undefined);
  const running = late.run(controller.signal);
  const find = async (kubeconfig?: string): Promise<unknown> => {
    await using cluster = late.openCluster({
      command: "ADD",
      env: {},
      podUid: "u1",
      kubeconfig,
    });
    const client = await cluster.client();
    return (await client.getPod("test", "p1")).metadata?.uid;
  };
  await assertRejects(() => find(), CniError, path);
  assertEquals(await find(scene.kubeconfig), "u1");
  await Deno.copyFile(scene.kubeconfig, path);
  await eventually("it watches", () => late.isCurrent);
  controller.abort();
  await running;
});

const RESULT = JSON.stringify({
  cniVersion: "1.0.0",
  interfaces: [{ name: "pod0", sandbox: "/proc/self/ns/net" }],
  ips: [{ address: "10.1.0.2/16", interface: 0 }],
});

/** Runs every plugin by returning an address. */
const invoker: Invoker = {
  invoke: ({ env }) =>
    Promise.resolve(env["CNI_COMMAND"] === "ADD" ? RESULT : ""),
};

// It looks for the delegates' interface in the namespace.
rootTest(
  "multus with a ResidentCluster sends one request per ADD, and none per DEL",
  async () => {
    await using scene = await Scene.start();
    const { api, directory } = scene;
    for (const type of ["master", "green"]) {
      await Deno.writeTextFile(`${directory}/${type}`, "", { mode: 0o755 });
    }
    const multus = createMultus({ openCluster: scene.cluster.openCluster });
    const networks = { "k8s.v1.cni.cncf.io/networks": "green" };
    const names = Array.from({ length: 200 }, (_, index) => `p${index + 100}`);
    for (const name of names) scene.putPod(`uid-${name}`, name, networks);
    // A pod that the watch has not reported is asked for.
    await eventually(
      "all are in memory",
      () => scene.cluster.watches.some(({ size }) => size > names.length),
    );
    const run = async (command: Command, name: string): Promise<void> => {
      const output = await dispatch(multus, {
        env: {
          CNI_COMMAND: command,
          CNI_CONTAINERID: `container-${name}`,
          CNI_NETNS: "/proc/self/ns/net",
          CNI_NETNS_OVERRIDE: "1",
          CNI_IFNAME: "pod0",
          CNI_PATH: directory,
          CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;" +
            `K8S_POD_NAME=${name};K8S_POD_UID=uid-${name}`,
        },
        stdin: () =>
          new TextEncoder().encode(JSON.stringify({
            cniVersion: "1.0.0",
            name: "multus",
            type: "multus",
            kubeconfig: scene.kubeconfig,
            cniDir: `${directory}/state`,
            binDir: directory,
            delegates: [{ cniVersion: "1.0.0", name: "pods", type: "master" }],
          })),
        invoker,
        hostNetns: "/proc/self/ns/net",
      });
      assertEquals([output.exitCode, output.stderr], [0, ""], output.stdout);
    };
    /** Counts the requests by method, without the watches. */
    const count = (): Record<string, number> => {
      const methods = api.distinctRequests
        .filter(({ path }) => !path.includes("watch=1"))
        .map(({ method }) => [method, 1] as const);
      const groups = Map.groupBy(methods, ([method]) => method);
      return Object.fromEntries(
        [...groups].map(([method, { length }]) => [method, length]),
      );
    };
    const runAll = (command: Command): Promise<void> =>
      eachAtOnce(names, 10, (name) => run(command, name));
    api.clearRequests();
    await runAll("ADD");
    await eventually("events arrive", () => api.events.length === 400);
    assertEquals(count(), { PATCH: 200, POST: 400 });
    for (const name of names) {
      assertEquals(api.networkStatus("test", name).length, 2, name);
    }
    api.clearRequests();
    await runAll("DEL");
    assertEquals(count(), {});
  },
);
