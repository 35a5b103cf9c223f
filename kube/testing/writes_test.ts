import { assertEquals, assertMatch } from "@std/assert";
import { ApiScene } from "./asker.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const PODS = "/api/v1/namespaces/n/pods";
const NADS =
  "/apis/k8s.cni.cncf.io/v1/namespaces/n/network-attachment-definitions";
const EVENTS = "/api/v1/namespaces/n/events";

Deno.test("KubeApi merges patches into a pod's status", async () => {
  await using scene = await ApiScene.create();
  const { json, status } = await scene.asker.patch(`${PODS}/p/status`, {
    metadata: { uid: "u1", annotations: { a: "1" } },
    spec: { nodeName: "other" },
    status: { phase: null, reason: "r" },
  });
  assertEquals(status, 200);
  assertEquals(json.metadata.annotations, { a: "1" });
  assertEquals(json.spec.nodeName, "node1");
  assertEquals(json.status.reason, "r");
  assertEquals(json.metadata.resourceVersion, "4");
  assertEquals(scene.api.pod("n", "p"), json);
});

Deno.test("KubeApi keeps the status if a write does not go to it", async () => {
  await using scene = await ApiScene.create();
  const { json } = await scene.asker.patch(`${PODS}/p`, {
    metadata: { labels: { l: "1" } },
    status: { phase: "Failed" },
  });
  assertEquals(json.status.phase, "Running");
  assertEquals(json.metadata.labels, { l: "1" });
});

Deno.test("KubeApi writes nothing for a patch that changes nothing", async () => {
  await using scene = await ApiScene.create();
  const patch = { metadata: { uid: "u1", annotations: null } };
  const { json } = await scene.asker.patch(`${PODS}/p/status`, patch);
  assertEquals(json.metadata.resourceVersion, "2");
});

Deno.test("KubeApi refuses writes with the UID of a different pod", async (t) => {
  const modified =
    'Operation cannot be fulfilled on pods "p": the object has ' +
    "been modified; please apply your changes to the latest version and try again";
  const rows: [string, "PUT" | "PATCH", object, number, string][] = [
    [
      "PATCH with another UID",
      "PATCH",
      { uid: "u0" },
      422,
      'Pod "p" is invalid: metadata.uid: Invalid value: "u0": field is immutable',
    ],
    [
      "PATCH of another version",
      "PATCH",
      { resourceVersion: "1" },
      409,
      modified,
    ],
    [
      "PATCH of both",
      "PATCH",
      { uid: "u0", resourceVersion: "1" },
      409,
      modified,
    ],
    [
      "PUT with another UID",
      "PUT",
      { name: "p", uid: "u0" },
      409,
      'Operation cannot be fulfilled on pods "p": StorageError: invalid ' +
      "object, Code: 4, Key: /registry/pods/n/p, ResourceVersion: 0, " +
      "AdditionalErrorMsg: Precondition failed: UID in precondition: u0, " +
      "UID in object meta: u1",
    ],
    [
      "PUT of another version",
      "PUT",
      { name: "p", resourceVersion: "1" },
      409,
      modified,
    ],
  ];
  await using scene = await ApiScene.create();
  await eachRow(t, rows, async ([, method, metadata, code, message]) => {
    const before = scene.api.pod("n", "p");
    const path = `${PODS}/p/status`;
    const { status, json } = method === "PATCH"
      ? await scene.asker.patch(path, { metadata })
      : await scene.asker.ask(method, path, { body: { metadata } });
    assertEquals([status, json.message], [code, message]);
    assertEquals(scene.api.pod("n", "p"), before);
  });
});

Deno.test("KubeApi refuses invalid annotations", async (t) => {
  const rows: [string, Record<string, unknown>, number, RegExp][] = [
    [
      "a wrong key",
      { "a b": "1" },
      422,
      /^Pod "p" is invalid: metadata.annotations: Invalid value: "a b": name part must/,
    ],
    [
      "too much",
      { a: "x".repeat(262_144) },
      422,
      /: Too long: may not be more than 262144 bytes$/,
    ],
    [
      "a number",
      { a: 1 },
      400,
      /cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations/,
    ],
  ];
  await using scene = await ApiScene.create();
  await eachRow(t, rows, async ([, annotations, code, message]) => {
    const patch = { metadata: { annotations } };
    const { status, json } = await scene.asker.patch(
      `${PODS}/p/status`,
      patch,
    );
    assertEquals(status, code);
    assertMatch(json.message, message);
  });
  await t.step("but accepts the maximum size", async () => {
    const patch = { metadata: { annotations: { a: "x".repeat(262_143) } } };
    const { status } = await scene.asker.patch(`${PODS}/p/status`, patch);
    assertEquals(status, 200);
  });
});

Deno.test("KubeApi replaces a pod's status, and keeps fields it does not know", async () => {
  await using scene = await ApiScene.create();
  const { json: pod } = await scene.asker.ask("GET", `${PODS}/p`);
  pod.metadata.annotations = { a: "1" };
  pod.status.unknown = { x: 1 };
  const { status } = await scene.asker.ask("PUT", `${PODS}/p/status`, {
    body: pod,
  });
  assertEquals(status, 200);
  const stored = scene.api.pod("n", "p");
  assertEquals(stored?.metadata.annotations, { a: "1" });
  assertEquals(stored?.["status"].unknown, { x: 1 });
  assertEquals(stored?.metadata.resourceVersion, "4");
});

Deno.test("KubeApi requires the resource version in writes of custom resources", async () => {
  await using scene = await ApiScene.create();
  const { json } = await scene.asker.ask("PUT", `${NADS}/net`, {
    body: { metadata: { name: "net" } },
  });
  assertEquals(json.code, 422);
  assertMatch(json.message, /metadata.resourceVersion: .*must be specified/);
});

Deno.test("KubeApi keeps events that are created", async (t) => {
  await using scene = await ApiScene.create();
  const event = (name: string, namespace = "n"): object => ({
    metadata: { name },
    involvedObject: { kind: "Pod", namespace, name: "p" },
    type: "Normal",
    reason: "AddedInterface",
    message: `Add eth0 [10.1.2.3/24] from ${name}`,
  });
  await t.step("in order", async () => {
    for (const name of ["p.b", "p.a", `P_${"x".repeat(300)}`]) {
      const body = event(name);
      assertEquals(
        (await scene.asker.ask("POST", EVENTS, { body })).status,
        201,
      );
    }
    assertEquals(scene.api.eventTexts, [
      "Normal AddedInterface Add eth0 [10.1.2.3/24] from p.b",
      "Normal AddedInterface Add eth0 [10.1.2.3/24] from p.a",
      `Normal AddedInterface Add eth0 [10.1.2.3/24] from P_${"x".repeat(300)}`,
    ]);
    assertEquals(scene.api.events[0]?.metadata.namespace, "n");
  });
  const wrong: [string, object, number, RegExp][] = [
    [
      "a second one of its name",
      event("p.a"),
      409,
      /^events "p.a" already exists$/,
    ],
    [
      "another namespace's",
      event("p.c", "m"),
      422,
      /does not match event.namespace/,
    ],
    ["no name", { metadata: {} }, 422, /name or generateName is required/],
    [
      "another kind",
      { kind: "Pod", apiVersion: "v1", metadata: { name: "x" } },
      400,
      /cannot be handled as a Event: converting \(v1.Pod\) to \(core.Event\)/,
    ],
    ["no JSON", "{" as unknown as object, 400, /./],
  ];
  await eachRow(t, wrong, async ([, body, code, message]) => {
    const { status, json } = await scene.asker.ask("POST", EVENTS, { body });
    assertEquals(status, code);
    assertMatch(json.message, message);
  }, ([name]) => `but not ${name}`);
  await t.step("and generates their names", async () => {
    const body = { ...event(""), metadata: { generateName: "p." } };
    const { json } = await scene.asker.ask("POST", EVENTS, { body });
    assertMatch(json.metadata.name, /^p\.[a-z0-9]{5}$/);
  });
});

Deno.test("KubeApi deletes objects", async () => {
  await using scene = await ApiScene.create();
  const { status, json } = await scene.asker.ask("DELETE", `${NADS}/net`);
  assertEquals([status, json.status], [200, "Success"]);
  const pod = await scene.asker.ask("DELETE", `${PODS}/p`);
  assertEquals([pod.status, pod.json.kind], [200, "Pod"]);
  assertEquals((await scene.asker.ask("DELETE", `${NADS}/net`)).status, 404);
  assertEquals(
    scene.api.find("network-attachment-definitions", "n", "net"),
    undefined,
  );
});
