import { assert, assertEquals } from "@std/assert";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import type { FaultRule } from "./testing/kube_api.ts";
import type { KubeClient } from "./client.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const POD = { namespace: "test", name: "p1", uid: "u1" };
const OTHER = { ...POD, uid: "u0" };
const MISMATCH = 'expected pod UID "u0" but got "u1" from Kube API';

/** A pod with annotations and a status, and a client. */
async function startScene(): Promise<{ scene: KubeScene; client: KubeClient }> {
  const scene = await KubeScene.start();
  scene.api.putPod({
    metadata: {
      name: "p1",
      namespace: "test",
      annotations: { kept: "1", changed: "old" },
    },
    status: { phase: "Running", unknown: { a: [1] } },
  });
  return { scene, client: await scene.open() };
}

function methods(scene: KubeScene): string[] {
  return scene.api.requests.map(({ method }) => method);
}

testRows(
  "PodAnnotator sets annotations with one PATCH",
  ["u1", "", undefined],
  async (uid) => {
    const { scene, client } = await startScene();
    await using _ = scene;
    using __ = client;
    await client.setPodAnnotations({ ...POD, uid }, { changed: "new", b: "" });
    const pod = scene.api.pod("test", "p1");
    assertEquals(pod?.metadata.annotations, {
      kept: "1",
      changed: "new",
      b: "",
    });
    assertEquals(pod?.["status"], { phase: "Running", unknown: { a: [1] } });
    assertEquals(methods(scene), ["PATCH"]);
  },
  (uid) => `UID ${uid}`,
);

Deno.test("PodAnnotator reads and replaces the pod if PATCH is forbidden", async (t) => {
  const rows = [
    ["forbidden", 403],
    ["no such method", 405],
    ["no such patch", 415],
  ] as const;
  await eachRow(t, rows, async ([, status]) => {
    const { scene, client } = await startScene();
    await using _ = scene;
    using __ = client;
    scene.api.fault({ method: "PATCH", status });
    await client.setPodAnnotations(POD, { changed: "new" });
    const pod = scene.api.pod("test", "p1");
    assertEquals(pod?.metadata.annotations, { kept: "1", changed: "new" });
    assertEquals(pod?.["status"], { phase: "Running", unknown: { a: [1] } });
    assertEquals(methods(scene), ["PATCH", "GET", "PUT"]);
    await client.setPodAnnotations(POD, { changed: "newer" });
    assertEquals(methods(scene).slice(3), ["GET", "PUT"]);
  });
  await t.step("forbidden by a rule of the server", async () => {
    const { scene, client } = await startScene();
    await using _ = scene;
    using __ = client;
    scene.api.forbid("patch", "pods/status");
    await client.setPodAnnotations(POD, { changed: "new" });
    scene.api.forbid("update", "pods/status");
    const error = await kubeErrorOf(client.setPodAnnotations(POD, {}));
    assertEquals(error.status, 403);
    assert(error.message.includes("cannot update"), error.message);
  });
});

Deno.test("PodAnnotator does not write to another pod of the same name", async (t) => {
  const conflict = 'Operation cannot be fulfilled on pods "p1": the UID';
  const rows = [
    ["the server's own words", undefined],
    ["409", {
      method: "PATCH",
      status: 409,
      body: JSON.stringify({
        kind: "Status",
        message: conflict,
        reason: "Conflict",
      }),
    }],
    ["where it may not patch", { method: "PATCH", status: 403 }],
  ] as const;
  await eachRow(t, rows, async ([, rule]) => {
    const { scene, client } = await startScene();
    await using _ = scene;
    using __ = client;
    if (rule !== undefined) scene.api.fault(rule);
    const error = await kubeErrorOf(
      client.setPodAnnotations(OTHER, { changed: "new" }),
    );
    assertEquals([error.status, error.message], [409, MISMATCH]);
    assertEquals(
      scene.api.pod("test", "p1")?.metadata.annotations?.["changed"],
      "old",
    );
    assertEquals(methods(scene), ["PATCH", "GET"]);
  });
});

Deno.test("PodAnnotator retries conflicting writes", async (t) => {
  const rows: readonly [string, "PATCH" | "PUT", string, number, boolean][] = [
    ["PATCH, sure of the pod", "PATCH", "u1", 4, true],
    ["PATCH, whatever pod", "PATCH", "", 4, true],
    ["PATCH, not for ever", "PATCH", "u1", 5, false],
    ["PUT", "PUT", "u1", 4, true],
    ["PUT, not for ever", "PUT", "u1", 5, false],
  ];
  await eachRow(t, rows, async ([, method, uid, times, works]) => {
    const { scene, client } = await startScene();
    await using _ = scene;
    using __ = client;
    if (method === "PUT") scene.api.forbid("patch", "pods/status");
    scene.api.fault({ method, status: 409, times });
    const done = client.setPodAnnotations({ ...POD, uid }, { a: "b" });
    const status = await done.then(() => 200, ({ status }) => status);
    assertEquals(status, works ? 200 : 409);
    const writes = scene.api.requestsOf(method).length;
    assertEquals(writes, works ? times + 1 : times);
  });
});

testRows(
  "PodAnnotator reports that the pod does not exist",
  [true, false],
  async (mayPatch) => {
    await using scene = await KubeScene.start();
    using client = await scene.open();
    if (!mayPatch) scene.api.forbid("patch", "pods/status");
    scene.api.removePod("test", "p1");
    const error = await kubeErrorOf(client.setPodAnnotations(POD, {}));
    assertEquals([error.status, error.message], [404, 'pods "p1" not found']);
  },
  (mayPatch) => mayPatch ? "PATCH" : "PUT",
);

Deno.test("PodAnnotator repeats a write without an answer", async (t) => {
  const faults: Readonly<Record<string, Partial<FaultRule>>> = {
    "connection cut before": { drop: "before" },
    "connection cut after": { drop: "after" },
    "connection cut mid-body": { drop: "mid-body" },
    "500": { status: 500 },
    "503": { status: 503 },
    "429": { status: 429, retryAfter: 1 },
    "no answer": { delayMs: 60_000 },
  };
  for (const [name, rule] of Object.entries(faults)) {
    await t.step(`PATCH, ${name}`, async () => {
      await using scene = await KubeScene.start();
      using client = await scene.open();
      scene.api.fault({ method: "PATCH", ...rule, times: 1 });
      await client.setPodAnnotations(POD, { a: "b" }, { perTryMs: 500 });
      assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, {
        a: "b",
      });
      assertEquals(methods(scene), ["PATCH", "PATCH"]);
    });
    await t.step(`PUT, ${name}`, async () => {
      await using scene = await KubeScene.start();
      using client = await scene.open();
      scene.api.forbid("patch", "pods/status");
      scene.api.fault({ method: "PUT", ...rule, times: 1 });
      await client.setPodAnnotations(POD, { a: "b" }, { perTryMs: 500 });
      assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, {
        a: "b",
      });
    });
  }
  await t.step("and waits for an unreachable server", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open();
    await scene.api.stop();
    const written = client.setPodAnnotations(POD, { a: "b" });
    await scene.api.restart();
    await written;
    assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, { a: "b" });
  });
});

Deno.test("PodAnnotator removes an annotation that has the value", async (t) => {
  const key = "example.com/a";
  const rows: [name: string, value: string, uid: string, isGone: boolean][] = [
    ["the value", "mine", "u1", true],
    ["a pod whose UID is unknown", "mine", "", true],
    ["another value", "other", "u1", false],
    ["another pod", "mine", "u0", false],
  ];
  for (const isAllowed of [true, false]) {
    await eachRow(t, rows, async ([, value, uid, isGone]) => {
      const { scene, client } = await startScene();
      await using _ = scene;
      using __ = client;
      await client.setPodAnnotations(POD, { [key]: "mine" });
      if (!isAllowed) scene.api.forbid("patch", "pods/status");
      await client.removePodAnnotation({ ...POD, uid }, key, value);
      assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, {
        kept: "1",
        changed: "old",
        ...isGone ? {} : { [key]: "mine" },
      });
    }, ([name]) => `${name}, ${isAllowed ? "by PATCH" : "by PUT"}`);
  }
  await t.step("of a deleted pod", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open();
    await client.removePodAnnotation({ ...POD, name: "p2" }, key, "mine");
  });
});

Deno.test("PodAnnotator replaces an annotation that has the value", async (t) => {
  const key = "example.com/a";
  const rows: [what: string, value: string, name: string, uid: string][] = [
    ["the value", "before", "p1", "u1"],
    ["a value that another program has written", "old", "p1", "u1"],
    ["another pod", "before", "p1", "u0"],
    ["a deleted pod", "before", "p2", "u1"],
  ];
  for (const isAllowed of [true, false]) {
    await eachRow(t, rows, async ([what, value, name, uid]) => {
      const { scene, client } = await startScene();
      await using _ = scene;
      using __ = client;
      await client.setPodAnnotations(POD, { [key]: "before" });
      if (!isAllowed) scene.api.forbid("patch", "pods/status");
      const pod = { namespace: "test", name, uid };
      const change = { key, value, next: "after" };
      const isReplaced = await client.replacePodAnnotation(pod, change);
      assertEquals(isReplaced, what === "the value");
      assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, {
        kept: "1",
        changed: "old",
        [key]: isReplaced ? "after" : "before",
      });
    }, ([name]) => `${name}, ${isAllowed ? "by PATCH" : "by PUT"}`);
  }
});

Deno.test("PodAnnotator keeps its time limit", async () => {
  const { scene, client } = await startScene();
  await using _ = scene;
  using __ = client;
  scene.api.fault({ method: "PATCH", status: 403 });
  // The limit counts waiting only, so a busy machine needs an answer that is far later.
  scene.api.fault({ delayMs: 5000 });
  const startMs = performance.now();
  const error = await kubeErrorOf(
    client.setPodAnnotations(POD, {}, { overallMs: 900 }),
  );
  assert(performance.now() - startMs < 5000);
  assertEquals(error.isTimeout, true);
});
