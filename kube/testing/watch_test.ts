import { assert, assertEquals, assertMatch } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { Asker } from "./asker.ts";
import { KubeApi } from "./kube_api.ts";

const PODS = "/api/v1/namespaces/n/pods";

/** News of a watch. */
interface News {
  readonly type: string;
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly object: any;
}

/** A server with pod `p`, and the events of its watches. */
class Scene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly #asker: Asker;

  private constructor(api: KubeApi) {
    this.api = api;
    this.#asker = new Asker(api);
    api.putPod({ metadata: { namespace: "n", name: "p" } });
  }

  static async create(): Promise<Scene> {
    return new Scene(await KubeApi.start());
  }

  /** Runs a watch during changes, ends it, and returns its events. */
  async watch(query: string, happen: () => void = () => {}): Promise<News[]> {
    const response = await this.#asker.fetch(
      "GET",
      `${PODS}?watch=true&${query}`,
    );
    assertEquals(response.status, 200);
    happen();
    this.api.endWatches();
    assertEquals(this.api.watchCount, 0);
    const lines = (await response.text()).trimEnd().split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  }

  /** Returns the news in short. */
  async story(query: string, happen?: () => void): Promise<string[]> {
    const news = await this.watch(query, happen);
    return news.map(({ type, object }) =>
      `${type} ${object.metadata.name ?? object.message ?? ""}`.trim()
    );
  }

  /** Puts a pod into the namespace that is watched. */
  put(name: string, fields: Record<string, unknown> = {}): void {
    this.api.putPod({ metadata: { namespace: "n", name }, ...fields });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#asker[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}

Deno.test("KubeApi sends changes to watches", async () => {
  await using scene = await Scene.create();
  const story = await scene.story("", () => {
    scene.put("q");
    scene.put("q", { spec: { x: 1 } });
    scene.api.putPod({ metadata: { namespace: "m", name: "other" } });
    scene.api.removePod("n", "q");
  });
  assertEquals(story, ["ADDED p", "ADDED q", "MODIFIED q", "DELETED q"]);
});

Deno.test("KubeApi resumes a watch from a version", async () => {
  await using scene = await Scene.create();
  const { resourceVersion } = scene.api.pod("n", "p")?.metadata ?? {};
  scene.put("q");
  assertEquals(await scene.story(`resourceVersion=${resourceVersion}`), [
    "ADDED q",
  ]);
});

Deno.test("KubeApi sends an error event for a version that is too old", async () => {
  await using scene = await Scene.create();
  scene.put("q");
  scene.api.compact();
  const [news] = await scene.watch("resourceVersion=2");
  assertEquals(news?.type, "ERROR");
  assertEquals([news?.object.code, news?.object.reason], [410, "Expired"]);
  assertMatch(news?.object.message, /^too old resource version: 2 \(3\)$/);
});

Deno.test("KubeApi keeps a limited number of changes of each resource", async (t) => {
  await using scene = await Scene.create();
  const { api } = scene;
  api.watchCapacity = 2;
  const versions = ["a", "b", "c"].map((name) => {
    scene.put(name);
    return api.pod("n", name)?.metadata.resourceVersion;
  });
  // Changes of other resources drop no event.
  for (let i = 0; i < 5; i++) api.putNad("n", `net${i}`, {});
  const watchFrom = (version?: string): Promise<string[]> =>
    scene.story(`resourceVersion=${version}`);
  await t.step("from the oldest change", async () => {
    assertEquals(await watchFrom(versions[0]), ["ADDED b", "ADDED c"]);
    assertEquals(await watchFrom(String(api.version)), []);
  });
  await t.step("but no earlier change", async () => {
    assertEquals(await watchFrom("2"), [
      "ERROR too old resource version: 2 (3)",
    ]);
  });
  await t.step("and none from before its restart", async () => {
    await api.restart();
    const [story] = await watchFrom(versions[2]);
    assertEquals(story, "ERROR too old resource version: 5 (10)");
    assertEquals(await watchFrom(String(api.version)), []);
  });
});

Deno.test("KubeApi starts no watch at an invalid version", async () => {
  await using scene = await Scene.create();
  using asker = new Asker(scene.api);
  const path = `${PODS}?watch=1&resourceVersion=x`;
  const { status, json } = await asker.ask("GET", path);
  assertEquals([status, json.reason], [500, undefined]);
  assertMatch(json.message, /^resourceVersion: Invalid value: "x"/);
});

Deno.test("KubeApi sends a watch only selected objects", async () => {
  await using scene = await Scene.create();
  const on = (nodeName: string): Record<string, unknown> => ({
    spec: { nodeName },
  });
  const story = await scene.story("fieldSelector=spec.nodeName%3Dnode2", () => {
    scene.put("q", on("node3"));
    scene.put("q", on("node2"));
    scene.put("q", { ...on("node2"), x: 1 });
    scene.put("q", on("node3"));
  });
  assertEquals(story, ["ADDED q", "MODIFIED q", "DELETED q"]);
});

Deno.test("KubeApi sends bookmarks to watches that request them", async () => {
  await using scene = await Scene.create();
  const send = (): void => scene.api.sendBookmarks();
  assertEquals(await scene.story("", send), ["ADDED p"]);
  const [, first, news] = await scene.watch("allowWatchBookmarks=true", send);
  assertEquals([first?.type, first?.object.metadata], ["BOOKMARK", {
    resourceVersion: "2",
    annotations: { "k8s.io/initial-events-end": "true" },
  }]);
  assertEquals(news?.type, "BOOKMARK");
  assertEquals(news?.object, {
    kind: "Pod",
    apiVersion: "v1",
    metadata: { resourceVersion: "2" },
  });
});

Deno.test("KubeApi ends a watch after timeoutSeconds", async () => {
  await using scene = await Scene.create();
  using asker = new Asker(scene.api);
  const before = performance.now();
  const { text } = await asker.ask("GET", `${PODS}?watch=1&timeoutSeconds=1`);
  assert(performance.now() - before >= 999);
  assertMatch(text, /^{"type":"ADDED",.*}\n$/);
});

Deno.test("KubeApi ends a watch in the middle of a line", async () => {
  await using scene = await Scene.create();
  using asker = new Asker(scene.api);
  scene.api.fault({ drop: "mid-body" });
  const response = await asker.fetch("GET", `${PODS}?watch=true`);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes);
    }
    text += "ended properly";
  } catch {
    // This is how the client learns of it.
  }
  assertMatch(text, /^{"type":"ADDED",.*}\n{"type":"ADD$/);
  assertEquals(scene.api.watchCount, 0);
});

Deno.test("KubeApi drops the watches of disconnected clients", async () => {
  await using scene = await Scene.create();
  const gone = new AbortController();
  using asker = new Asker(scene.api);
  const response = await asker.fetch("GET", `${PODS}?watch=true`, {
    signal: gone.signal,
  });
  assertEquals(scene.api.watchCount, 1);
  gone.abort();
  await response.body?.cancel().catch(() => {});
  await eventually("no watch is left", () => scene.api.watchCount === 0);
});
