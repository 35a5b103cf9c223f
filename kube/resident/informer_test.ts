import { assert, assertEquals, assertMatch } from "@std/assert";
import type { KubeClient } from "../client.ts";
import type { Pod } from "../types.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import type { KubeApi } from "../testing/kube_api.ts";
import { KubeScene } from "../testing/kube_scene.ts";
import { Informer, type InformerOptions } from "./informer.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** An informer for the pods of node1, and its server. */
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
      cachedPart: ({ metadata }) =>
        metadata?.uid === undefined
          ? undefined
          : { text: JSON.stringify({ metadata }), uids: [metadata.uid] },
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

  /** Creates or replaces a pod of node1. */
  put(name: string, uid: string, note = ""): void {
    const annotations = { note };
    const metadata = { namespace: "test", name, uid, annotations };
    this.api.putPod({ metadata });
  }

  /** Returns the cached part of a pod: its UID and its note. */
  find(name: string): string | undefined {
    const cached = this.informer.find("test", name);
    if (cached === undefined) return undefined;
    const { metadata } = JSON.parse(cached.text);
    return `${cached.uids} ${metadata.annotations?.note ?? ""}`.trimEnd();
  }

  /** Lists the paths of the informer's requests. */
  pathsAsked(): string[] {
    return this.api.requestsOf("GET", /\/pods/).map(({ path }) => path);
  }

  lists(): string[] {
    return this.pathsAsked().filter((path) => !path.includes("watch=1"));
  }

  watches(): string[] {
    return this.pathsAsked().filter((path) => path.includes("watch=1"));
  }

  /**
   * Ends the watch, and waits until the next watch reports a new pod.
   *
   * @param prepare Sends something first, which still arrives
   */
  async resume(prepare: () => void = () => {}): Promise<void> {
    await eventually("it watches", () => this.api.watchCount === 1);
    const { length } = this.watches();
    prepare();
    this.api.endWatches();
    await eventually("it resumes", () => this.watches().length > length);
    this.put("newest", "u100");
    await this.waitFor("newest", "u100");
  }

  async waitFor(name: string, expected: string | undefined): Promise<void> {
    await eventually(
      `${name} is cached as ${expected}`,
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

/** Returns the version in a request's path. */
function versionOf(path: string): number {
  return Number(new URLSearchParams(path.split("?")[1]).get("resourceVersion"));
}

Deno.test("Informer caches objects, and follows changes", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  await eventually("it watches", () => scene.informer.isCurrent);
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

Deno.test("Informer does not cache pods of other nodes", async () => {
  await using scene = await Scene.start();
  const metadata = { namespace: "test", name: "far", uid: "u9" };
  scene.api.putPod({ metadata, spec: { nodeName: "node2" } });
  scene.put("p2", "u2");
  await scene.waitFor("p2", "u2");
  assertEquals(scene.find("far"), undefined);
});

Deno.test("Informer lists, then watches from the version of the list", async () => {
  await using scene = await Scene.start({}, (api) => {
    // The listed objects are older than the list.
    api.putNad("test", "net1", {});
  });
  await scene.waitFor("p1", "u1");
  await eventually("it watches", () => scene.pathsAsked().length > 1);
  const version = scene.api.putNad("test", "net2", {}).metadata.resourceVersion;
  const [list = "", watch = "", ...others] = scene.pathsAsked();
  assertEquals(others, []);
  assertMatch(list, /fieldSelector=spec.nodeName%3Dnode1&limit=500&/);
  assertMatch(list, /resourceVersion=0$/);
  assertMatch(watch, /allowWatchBookmarks=true/);
  assertEquals(versionOf(watch), Number(version) - 1);
});

Deno.test("Informer resumes after a watch ends", async (t) => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  await t.step("in order", async () => {
    scene.api.endWatches();
    scene.put("p2", "u2");
    await scene.waitFor("p2", "u2");
  });
  await t.step("after a restart of the server", async () => {
    await scene.api.restart();
    scene.put("p3", "u3");
    await scene.waitFor("p3", "u3");
    assertEquals(scene.logged, ["Cannot watch pods", "Watching pods again"]);
  });
  assertEquals(scene.lists().length, 1);
});

Deno.test("Informer resumes if its objects never change", async (t) => {
  await t.step("with objects older than the server", async () => {
    await using scene = await Scene.start({}, (api) => {
      for (let i = 0; i < 10; i++) api.putNad("test", `net${i}`, {});
      api.compact();
    });
    await scene.waitFor("p1", "u1");
    await scene.resume();
    assertEquals([scene.lists().length, scene.logged], [1, []]);
  });
  await t.step("while other objects change often", async () => {
    await using scene = await Scene.start();
    scene.api.watchCapacity = 3;
    await scene.waitFor("p1", "u1");
    await eventually("it watches", () => scene.informer.isCurrent);
    for (let i = 0; i < 10; i++) {
      const metadata = { namespace: "test", name: `far${i}` };
      scene.api.putPod({ metadata, spec: { nodeName: "node2" } });
    }
    scene.api.sendBookmarks();
    scene.put("p2", "u2");
    await scene.waitFor("p2", "u2");
    for (let i = 0; i < 3; i++) scene.api.putNad("test", `net${i}`, {});
    scene.api.compact();
    scene.api.sendBookmarks();
    await scene.resume();
    assertEquals([scene.lists().length, scene.logged], [1, []]);
  });
});

Deno.test("Informer resumes after the last bookmark", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  await eventually("it watches", () => scene.informer.isCurrent);
  const { resourceVersion } = scene.api.putNad("test", "net1", {}).metadata;
  await scene.resume(() => scene.api.sendBookmarks());
  assertEquals(
    versionOf(scene.watches().at(-1) ?? ""),
    Number(resourceVersion),
  );
});

Deno.test("Informer lists again if its version is too old", async (t) => {
  await eachRow(t, [400, 410, 504], async (status) => {
    await using scene = await Scene.start();
    await scene.waitFor("p1", "u1");
    const version = scene.api.pod("test", "p1")?.metadata.resourceVersion;
    scene.api.fault({ path: /watch=1/, status, times: 1 });
    scene.api.endWatches();
    scene.api.removePod("test", "p1");
    scene.put("p2", "u2");
    await scene.waitFor("p2", "u2");
    await scene.waitFor("p1", undefined);
    const [, again = "", ...others] = scene.lists();
    assertEquals([versionOf(again), others], [Number(version), []]);
  }, (status) => String(status));
  await t.step("after too many changes", async () => {
    await using scene = await Scene.start();
    await scene.waitFor("p1", "u1");
    await scene.api.stop();
    scene.api.removePod("test", "p1");
    scene.put("p2", "u2");
    await scene.api.restart();
    await scene.waitFor("p2", "u2");
    await scene.waitFor("p1", undefined);
    assertEquals(scene.lists().length, 2);
  });
});

Deno.test("Informer falls back to the newest list, in pages", async (t) => {
  const names = ["p1", "p2", "p3", "p4", "p5"];
  const prepare = (api: KubeApi): void => {
    api.fault({ path: /resourceVersion=0/, status: 410 });
    names.forEach((name, index) => {
      const metadata = { namespace: "test", name, uid: `u${index + 1}` };
      api.putPod({ metadata });
    });
  };
  await t.step("each page", async () => {
    await using scene = await Scene.start({ limit: 2 }, prepare);
    await scene.waitFor("p5", "u5");
    assertEquals(scene.informer.size, 5);
    const pages = scene.lists().filter((path) => !/resourceVersion/.test(path));
    assertEquals(pages.map((path) => /continue=/.test(path)), [
      false,
      true,
      true,
    ]);
  });
  await t.step("until a page expires", async () => {
    await using scene = await Scene.start({ limit: 2 }, (api) => {
      prepare(api);
      api.fault({ path: /continue=/, delayMs: 300, times: 1 });
    });
    const { api } = scene;
    await eventually(
      "it has read a page",
      () => api.requestsOf("GET", /continue=/).length === 1,
    );
    api.removePod("test", "p1");
    api.compact();
    await scene.waitFor("p5", "u5");
    await scene.waitFor("p1", undefined);
    assertEquals(scene.informer.size, 4);
  });
});

Deno.test("Informer lists again without another pause", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  scene.api.fault({ path: /watch=1/, status: 403, times: 2 });
  scene.api.fault({ path: /watch=1/, status: 410, times: 1 });
  scene.api.endWatches();
  await eventually("it lists again", () => scene.lists().length > 1);
  const times = scene.api.requestsOf("GET", /\/pods/).map(({ at }) => at);
  const [last = 0, before = 0, third = 0, second = 0] = times.reverse();
  // The pause after a first failure, not the one after a fourth, which is eight
  // times as long. The limit is the pause after a second one.
  assert(
    last - before < 2 * (third - second),
    `${last - before} ms, ${third - second} ms`,
  );
  await scene.waitFor("p1", "u1");
});

Deno.test("Informer reports a broken watch, and keeps its objects", async () => {
  await using scene = await Scene.start();
  await scene.waitFor("p1", "u1");
  await scene.api.stop();
  await eventually("it notices", () => !scene.informer.isCurrent);
  assertEquals(scene.find("p1"), "u1");
  await scene.api.restart();
  await eventually("it watches", () => scene.informer.isCurrent);
});

Deno.test("Informer starts once it gets permission", async () => {
  const forbid = (api: KubeApi): void => api.forbid("watch", "pods");
  await using scene = await Scene.start({}, forbid);
  await eventually("it is logged", () => scene.logged.length === 1);
  assertEquals(scene.informer.isCurrent, false);
  scene.api.allow("watch", "pods");
  await scene.waitFor("p1", "u1");
  await eventually("it watches", () => scene.informer.isCurrent);
  assertEquals(scene.logged, ["Cannot watch pods", "Watching pods again"]);
});

Deno.test("Informer gives up a silent watch", async () => {
  await using scene = await Scene.start({ silenceMs: 100, checkMs: 20 });
  await scene.waitFor("p1", "u1");
  await eventually(
    "it watches once more",
    () => scene.api.requestsOf("GET", /watch=1/).length > 1,
  );
  scene.put("p2", "u2");
  await scene.waitFor("p2", "u2");
  assertEquals(scene.logged, []);
});

Deno.test("Informer limits its size", async () => {
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
