import { assert, assertEquals } from "@std/assert";
import type { KubeClient } from "../../../kube/client.ts";
import type { Pod } from "../../../kube/types.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import type { KubeApi } from "../../../tests/_harness/kube_api.ts";
import { KubeScene } from "../../../tests/_harness/kube_scene.ts";
import { Informer, type InformerOptions } from "./informer.ts";
import { rememberPod } from "./remembered.ts";

/** An informer of the pods of node1, and the server that it asks. */
class Scene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly informer: Informer<Pod>;
  readonly logged: string[] = [];
  readonly #kube: KubeScene;
  readonly #client: KubeClient;
  readonly #controller = new AbortController();
  readonly #running: Promise<void>;

  private constructor(
    kube: KubeScene,
    client: KubeClient,
    options: Partial<InformerOptions<Pod>>,
  ) {
    this.#kube = kube;
    this.api = kube.api;
    this.#client = client;
    const log = (message: string): void => void this.logged.push(message);
    this.informer = new Informer({
      client,
      path: "/api/v1/pods",
      fieldSelector: "spec.nodeName=node1",
      remember: rememberPod,
      what: "pods",
      log: { info: log, warn: log },
      ...options,
    });
    this.#running = this.informer.run(this.#controller.signal);
  }

  /** Starts both; the server has pod test/p1. */
  static async start(
    options: Partial<InformerOptions<Pod>> = {},
    prepare: (api: KubeApi) => void = () => {},
  ): Promise<Scene> {
    const kube = await KubeScene.start();
    prepare(kube.api);
    return new Scene(kube, await kube.open(), options);
  }

  /** Puts a pod of node1. */
  put(name: string, uid: string, note = ""): void {
    const annotations = { note };
    const metadata = { namespace: "test", name, uid, annotations };
    this.api.putPod({ metadata });
  }

  /** What is remembered of a pod: its UID and its note. */
  find(name: string): string | undefined {
    const remembered = this.informer.find("test", name);
    if (remembered === undefined) return undefined;
    const { metadata } = JSON.parse(remembered.text);
    return `${remembered.uids} ${metadata.annotations.note ?? ""}`.trimEnd();
  }

  async waitFor(name: string, expected: string | undefined): Promise<void> {
    await eventually(
      `${name} is remembered as ${expected}`,
      () => this.find(name) === expected,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.#running;
    this.#client[Symbol.dispose]();
    await this.#kube[Symbol.asyncDispose]();
  }
}

Deno.test("Informer remembers what there is, and follows it", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  assert(scene.informer.isCurrent);
  scene.put("p2", "u2", "one");
  await scene.waitFor("p2", "u2 one");
  scene.put("p2", "u2", "two");
  await scene.waitFor("p2", "u2 two");
  scene.put("p2", "u3");
  await scene.waitFor("p2", "u3");
  scene.api.removePod("test", "p2");
  await scene.waitFor("p2", undefined);
  assertEquals([scene.informer.size, scene.logged], [1, []]);
});

Deno.test("Informer remembers no pods of other nodes", async () => {
  await using scene = await Scene.start();
  const metadata = { namespace: "test", name: "far", uid: "u9" };
  scene.api.putPod({ metadata, spec: { nodeName: "node2" } });
  scene.put("p2", "u2");
  await scene.waitFor("p2", "u2");
  assertEquals(scene.find("far"), undefined);
});

Deno.test("Informer goes on where it was when a watch ends", async (t) => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  const watches = (): string[] =>
    scene.api.requestsOf("GET", /watch=1/).map(({ path }) => path);
  await t.step("in order", async () => {
    scene.api.endWatches();
    scene.put("p2", "u2");
    await scene.waitFor("p2", "u2");
  });
  await t.step("because the server is restarted", async () => {
    await scene.api.restart();
    scene.put("p3", "u3");
    await scene.waitFor("p3", "u3");
    assertEquals(scene.logged, ["Cannot watch pods", "Watching pods again"]);
  });
  const [first = "", ...others] = watches();
  assert(/resourceVersion=0(&|$)/.test(first), first);
  for (const path of others) {
    assert(!/resourceVersion=0(&|$)/.test(path), path);
  }
  assertEquals(scene.api.requestsOf("GET", /\/pods/).length, watches().length);
});

Deno.test("Informer goes on after the last bookmark", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  // The first watch has no bookmarks.
  scene.api.endWatches();
  scene.put("p1", "u1", "again");
  await scene.waitFor("p1", "u1 again");
  scene.api.putNad("test", "net1", {});
  scene.api.sendBookmarks();
  const { resourceVersion } = scene.api.putNad("test", "net1", {}).metadata;
  scene.api.sendBookmarks();
  scene.api.clearRequests();
  // Until what has been sent has come.
  scene.put("p2", "u2");
  await scene.waitFor("p2", "u2");
  scene.api.endWatches();
  await eventually(
    "it watches again",
    () => scene.api.requestsOf("GET", /watch=1/).length > 0,
  );
  const [{ path } = { path: "" }] = scene.api.requestsOf("GET", /watch=1/);
  const version = new URLSearchParams(path.split("?")[1]).get(
    "resourceVersion",
  );
  assert(Number(version) > Number(resourceVersion), path);
});

Deno.test("Informer begins anew when its version is of no use any more", async (t) => {
  for (const status of [410, 504]) {
    await t.step(String(status), async () => {
      await using scene = await Scene.start();
      await scene.waitFor("p1", "u1");
      scene.api.fault({ path: /watch=1/, status, times: 1 });
      scene.api.endWatches();
      scene.api.removePod("test", "p1");
      scene.put("p2", "u2");
      await scene.waitFor("p2", "u2");
      await scene.waitFor("p1", undefined);
      const last = scene.api.requestsOf("GET", /watch=1/).at(-1);
      assert(/resourceVersion=0(&|$)/.test(last?.path ?? ""), last?.path);
    });
  }
});

Deno.test("Informer begins anew at once, however long it has waited", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  scene.api.fault({ path: /watch=1/, status: 503, times: 2 });
  scene.api.fault({ path: /watch=1/, status: 410, times: 1 });
  scene.api.endWatches();
  await eventually(
    "it watches again",
    () => scene.api.requestsOf("GET", /resourceVersion=0&/).length > 1,
  );
  const times = scene.api.requestsOf("GET", /watch=1/).map(({ at }) => at);
  const [last = 0, before = 0] = times.reverse();
  // The pause after a first failure, and not the one after a fourth.
  assert(last - before < 700, `${last - before} ms`);
  await scene.waitFor("p1", "u1");
});

Deno.test("Informer says when nobody tells it of changes, and knows what it knew", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  await scene.api.stop();
  await eventually("it notices", () => !scene.informer.isCurrent);
  assertEquals(scene.find("p1"), "u1");
  await scene.api.restart();
  await eventually("it watches", () => scene.informer.isCurrent);
});

Deno.test("Informer begins when it is let", async () => {
  const forbid = (api: KubeApi): void => api.forbid("watch", "pods");
  await using scene = await Scene.start({}, forbid);
  await eventually("it is told", () => scene.logged.length === 1);
  assertEquals(scene.informer.isCurrent, false);
  scene.api.allow("watch", "pods");
  await scene.waitFor("p1", "u1");
  assertEquals(scene.logged, ["Cannot watch pods", "Watching pods again"]);
});

Deno.test("Informer gives up a watch that says nothing", async () => {
  await using scene = await Scene.start({ silenceMs: 100, lookMs: 20 });
  await scene.waitFor("p1", "u1");
  await eventually(
    "it watches once more",
    () => scene.api.requestsOf("GET", /watch=1/).length > 1,
  );
  scene.put("p2", "u2");
  await scene.waitFor("p2", "u2");
  assertEquals(scene.logged, []);
});

Deno.test("Informer does not remember more than it may", async () => {
  await using scene = await Scene.start({ maxLength: 2000 });
  await scene.waitFor("p1", "u1");
  scene.put("long", "u2", "x".repeat(3000));
  scene.put("p3", "u3");
  await scene.waitFor("p3", "u3");
  assertEquals(scene.find("long"), undefined);
  scene.put("long", "u2", "short");
  await scene.waitFor("long", "u2 short");
  scene.put("p3", "u3", "x".repeat(3000));
  await scene.waitFor("p3", undefined);
  scene.put("p3", "u3", "y".repeat(900));
  await scene.waitFor("p3", `u3 ${"y".repeat(900)}`);
});
