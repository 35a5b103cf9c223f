import { assert, assertEquals } from "@std/assert";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import type { KubeClient } from "./client.ts";
import type { Pod, WatchEvent } from "./types.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { countTimeouts } from "../tests/_harness/timeouts.ts";

const PATH = "/api/v1/namespaces/test/pods";

type Events = AsyncGenerator<WatchEvent<Pod>, void>;

/** Starts a watch at the current version. */
async function startWatch(
  client: KubeClient,
  signal?: AbortSignal,
): Promise<Events> {
  const { metadata } = await client.list<Pod>(PATH);
  const { resourceVersion = "" } = metadata ?? {};
  return client.watch<Pod>(PATH, { resourceVersion, signal });
}

/** Waits for the next event; returns "end" after the last event. */
async function next(events: Events): Promise<string> {
  const { done, value } = await events.next();
  return done ? "end" : `${value.type} ${value.object.metadata?.name ?? ""}`;
}

/** Waits until the server has this number of watches. */
async function waitForWatches(
  { api }: KubeScene,
  count: number,
): Promise<void> {
  const endMs = performance.now() + 60_000;
  while (api.watchCount !== count) {
    assert(performance.now() < endMs, `${api.watchCount} watches`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

Deno.test("KubeClient.watch() reports changes", async () => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  using client = await scene.open();
  const events = await startWatch(client);
  api.putPod({ metadata: { namespace: "test", name: "p2" } });
  assertEquals(await next(events), "ADDED p2");
  api.putPod({ metadata: { namespace: "elsewhere", name: "p3" } });
  api.putPod({
    metadata: { namespace: "test", name: "p2", labels: { a: "ä".repeat(99) } },
  });
  assertEquals(await next(events), "MODIFIED p2");
  api.removePod("test", "p2");
  assertEquals(await next(events), "DELETED p2");
  api.sendBookmarks();
  assertEquals(await next(events), "BOOKMARK ");
  api.endWatches();
  assertEquals(await next(events), "end");
});

Deno.test("KubeClient.watch() can be ended early", async (t) => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  using client = await scene.open();
  await t.step("by its signal", async () => {
    const controller = new AbortController();
    const events = await startWatch(client, controller.signal);
    const waiting = next(events);
    api.putPod({ metadata: { namespace: "test", name: "p2" } });
    assertEquals(await waiting, "ADDED p2");
    const ended = next(events);
    controller.abort();
    assertEquals(await ended, "end");
    await waitForWatches(scene, 0);
  });
  await t.step("by leaving the loop", async () => {
    const events = await startWatch(client);
    const waiting = next(events);
    api.removePod("test", "p2");
    assertEquals(await waiting, "DELETED p2");
    await events.return();
    await waitForWatches(scene, 0);
  });
  await t.step("before it started", async () => {
    const events = await startWatch(client, AbortSignal.abort());
    assertEquals(await next(events), "end");
  });
});

Deno.test("KubeClient.watch() starts no timer while nothing changes", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  const events = await startWatch(client);
  const waiting = next(events);
  await waitForWatches(scene, 1);
  assertEquals(await countTimeouts(500), 0);
  scene.api.endWatches();
  assertEquals(await waiting, "end");
});

Deno.test("KubeClient.watch() fails", async (t) => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  using client = await scene.open();
  const watchFrom = (resourceVersion: string): Events =>
    client.watch<Pod>(PATH, { resourceVersion });
  await t.step("if the version is too old", async () => {
    api.putPod({ metadata: { namespace: "test", name: "p2" } });
    api.compact();
    assertEquals((await kubeErrorOf(next(watchFrom("1")))).status, 410);
  });
  await t.step("if it is forbidden", async () => {
    api.forbid("watch", "pods");
    assertEquals((await kubeErrorOf(next(watchFrom("")))).status, 403);
    api.allow("watch", "pods");
  });
  await t.step("if the connection breaks", async () => {
    const broken = kubeErrorOf(next(await startWatch(client)));
    await waitForWatches(scene, 1);
    await api.stop();
    const error = await broken;
    assertEquals([error.status, error.isTimeout], [0, false]);
    await api.restart();
  });
  const event = (type: string, object: unknown): string =>
    `${JSON.stringify({ type, object })}\n`;
  const rows: readonly [string, string, number, string][] = [
    [
      "by an error in it",
      event("ERROR", {
        kind: "Status",
        code: 410,
        reason: "Expired",
        message: "too old",
      }),
      410,
      "too old",
    ],
    ["by garbage", "<html>\n", 0, "an event of the watch is not JSON"],
    [
      "by half an event",
      event("ADDED", {}).slice(0, 9),
      0,
      "an event of the watch is not JSON",
    ],
  ];
  await eachRow(t, rows, async ([, body, status, message]) => {
    api.fault({ path: /watch=/, body, times: 1 });
    const error = await kubeErrorOf(next(watchFrom("")));
    assertEquals(error.status, status);
    assert(error.message.endsWith(message), error.message);
  });
});
