import { assert, assertEquals, assertMatch } from "@std/assert";
import { ApiScene, Asker } from "./asker.ts";
import { KubeApi, type KubeObject } from "./kube_api.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const PODS = "/api/v1/namespaces/n/pods";
const NADS =
  "/apis/k8s.cni.cncf.io/v1/namespaces/n/network-attachment-definitions";
const SLICES = "/apis/resource.k8s.io/v1/resourceslices";

/** Removes the values that differ from run to run. */
function metadataOf({ metadata }: KubeObject): Record<string, unknown> {
  const { creationTimestamp, ...rest } = metadata;
  assertMatch(creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  return rest;
}

Deno.test("KubeApi returns the objects that were put", async (t) => {
  await using scene = await ApiScene.create();
  const { asker } = scene;
  await t.step("a pod", async () => {
    const { status, json, headers } = await asker.ask("GET", `${PODS}/p`);
    assertEquals(status, 200);
    assertEquals(headers.get("content-type"), "application/json");
    assertEquals([json.kind, json.apiVersion], ["Pod", "v1"]);
    assertEquals(metadataOf(json), {
      namespace: "n",
      name: "p",
      uid: "u1",
      resourceVersion: "2",
    });
    assertEquals(json.spec.nodeName, "node1");
    assertEquals(json.status.phase, "Running");
  });
  await t.step("a network attachment definition", async () => {
    const { json } = await asker.ask("GET", `${NADS}/net`);
    assertEquals(json.apiVersion, "k8s.cni.cncf.io/v1");
    assertEquals(json.spec, { config: '{"type":"macvlan"}' });
    assertEquals(json.metadata.annotations, { a: "b" });
  });
  await t.step("the namespace", async () => {
    const { json } = await asker.ask("GET", "/api/v1/namespaces/n");
    assertEquals([json.kind, json.metadata.name], ["Namespace", "n"]);
  });
  await t.step("health and version", async () => {
    assertEquals((await asker.ask("GET", "/readyz")).text, "ok");
    assertEquals((await asker.ask("GET", "/version")).json.major, "1");
  });
});

Deno.test("KubeApi fails with the messages of API servers", async (t) => {
  const refusals: [string, string, string, number, string, string][] = [
    ["GET", `${PODS}/x`, "", 404, "NotFound", 'pods "x" not found'],
    [
      ...["GET", `${NADS}/x`, ""] as const,
      ...[404, "NotFound"] as const,
      'network-attachment-definitions.k8s.cni.cncf.io "x" not found',
    ],
    [
      ...["GET", "/api/v1/namespaces/n/flowers", ""] as const,
      ...[404, "NotFound"] as const,
      "the server could not find the requested resource",
    ],
    [
      ...["POST", `${PODS}/p`, "{}"] as const,
      ...[405, "MethodNotAllowed"] as const,
      "the server does not allow this method on the requested resource",
    ],
    [
      ...["PATCH", `${PODS}/p`, "{}"] as const,
      ...[415, "UnsupportedMediaType"] as const,
      "415: Unsupported Media Type",
    ],
    [
      ...["PATCH", `${NADS}/net`, "{}"] as const,
      ...[415, "UnsupportedMediaType"] as const,
      "the body of the request was in an unknown format - accepted media " +
      "types include: application/json-patch+json, " +
      "application/merge-patch+json, application/apply-patch+yaml",
    ],
    [
      ...["PATCH", `${NADS}/net/status`, "{}"] as const,
      ...[404, "NotFound"] as const,
      'network-attachment-definitions.k8s.cni.cncf.io "net" not found',
    ],
    [
      ...["PUT", `${PODS}/p`, "{}"] as const,
      ...[400, "BadRequest"] as const,
      "the name of the object (p based on URL) was undeterminable: name must be provided",
    ],
    [
      ...["PUT", `${PODS}/p`, "{"] as const,
      ...[400, "BadRequest"] as const,
      "the object provided is unrecognized (must be of type Pod): couldn't " +
      "get version/kind; json parse error: unexpected end of JSON input ({)",
    ],
    [
      ...["PUT", `${PODS}/p`, "x".repeat(3 * 2 ** 20 + 1)] as const,
      ...[413, "RequestEntityTooLarge"] as const,
      "Request entity too large: limit is 3145728",
    ],
    [
      ...[
        "POST",
        "/api/v1/namespaces/none/events",
        '{"metadata":{"name":"e"}}',
      ] as const,
      ...[404, "NotFound"] as const,
      'namespaces "none" not found',
    ],
    [
      ...["GET", `${PODS}?resourceVersion=x`, ""] as const,
      ...[400, "BadRequest"] as const,
      'invalid resource version: resourceVersion: Invalid value: "x": ' +
      'strconv.ParseUint: parsing "x": invalid syntax',
    ],
    [
      ...["GET", `${PODS}?resourceVersion=99`, ""] as const,
      ...[504, "Timeout"] as const,
      "Timeout: Too large resource version: 99, current: 3",
    ],
    [
      ...["GET", `${PODS}?limit=x`, ""] as const,
      ...[400, "BadRequest"] as const,
      'strconv.ParseInt: parsing "x": invalid syntax',
    ],
    [
      ...["PUT", `${PODS}/p`, '{"metadata":{"name":"q"}}'] as const,
      ...[400, "BadRequest"] as const,
      "the name of the object (q) does not match the name on the URL (p)",
    ],
    [
      ...["GET", `${PODS}?fieldSelector=spec.flowers%3Dred`, ""] as const,
      ...[400, "BadRequest"] as const,
      "field label not supported: spec.flowers",
    ],
  ];
  await using scene = await ApiScene.create();
  for (const [method, path, body, code, reason, message] of refusals) {
    await t.step(`${method} ${path}: ${code}`, async () => {
      const options = body === "" ? {} : { body };
      const { status, json } = await scene.asker.ask(method, path, options);
      assertEquals(status, code);
      const { details: _, ...known } = json;
      assertEquals(known, {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message,
        reason,
        code,
      });
    });
  }
});

Deno.test("KubeApi names the object of a failure", async () => {
  await using scene = await ApiScene.create();
  const { json } = await scene.asker.ask("GET", `${NADS}/x`);
  assertEquals(json.details, {
    name: "x",
    group: "k8s.cni.cncf.io",
    kind: "network-attachment-definitions",
  });
});

Deno.test("KubeApi refuses unknown custom resources", async () => {
  await using scene = await ApiScene.create();
  const path = NADS.replace(/[^/]+$/, "flowers");
  const { status, text } = await scene.asker.ask("GET", path);
  assertEquals([status, text], [404, "404 page not found\n"]);
});

Deno.test("KubeApi.uninstall() leaves a page that is not a Status", async () => {
  await using scene = await ApiScene.create();
  scene.api.uninstall("network-attachment-definitions");
  const { status, text } = await scene.asker.ask("GET", `${NADS}/net`);
  assertEquals([status, text], [404, "404 page not found\n"]);
  assertEquals((await scene.asker.ask("GET", `${PODS}/p`)).status, 200);
});

Deno.test("KubeApi lists by fields", async (t) => {
  await using api = await KubeApi.start();
  using asker = new Asker(api);
  for (
    const [name, nodeName, driver] of [
      ["s1", "node1", "d1"],
      ["s2", "node1", "d2"],
      ["s3", "node2", "d1"],
      ["s4", undefined, "d1"],
    ] as const
  ) {
    const spec = { driver, ...(nodeName && { nodeName }) };
    api.putSlice({ metadata: { name }, spec });
  }
  const rows: [string, string[]][] = [
    ["", ["s1", "s2", "s3", "s4"]],
    ["spec.nodeName=node1,spec.driver=d1", ["s1"]],
    ["spec.driver==d1", ["s1", "s3", "s4"]],
    ["spec.driver!=d1", ["s2"]],
    ["spec.nodeName=", ["s4"]],
    ["metadata.name=s2", ["s2"]],
  ];
  await eachRow(t, rows, async ([selector, names]) => {
    const query = `?fieldSelector=${encodeURIComponent(selector)}`;
    const { json } = await asker.ask("GET", `${SLICES}${query}`);
    assertEquals(json.kind, "ResourceSliceList");
    assertEquals(json.metadata, { resourceVersion: "5" });
    assertEquals(json.items.map((o: KubeObject) => o.metadata.name), names);
  }, ([selector]) => `"${selector}"`);
});

Deno.test("KubeApi lists in pages, until their token expires", async () => {
  await using scene = await ApiScene.create();
  const { api, asker } = scene;
  for (const name of ["q", "r"]) {
    api.putPod({ metadata: { namespace: "n", name } });
    api.putPod({ metadata: { namespace: "m", name } });
  }
  const first = await asker.ask("GET", "/api/v1/pods?limit=3");
  const namesOf = (items: KubeObject[]): string[] =>
    items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  assertEquals(namesOf(first.json.items), ["m/q", "m/r", "n/p"]);
  assertEquals(first.json.metadata.remainingItemCount, 2);
  const token = encodeURIComponent(first.json.metadata.continue);
  const next = `/api/v1/pods?limit=3&continue=${token}`;
  const version = first.json.metadata.resourceVersion;
  // All pages are of the same version.
  api.removePod("n", "q");
  api.putPod({ metadata: { namespace: "n", name: "r", labels: { a: "b" } } });
  api.putPod({ metadata: { namespace: "n", name: "z" } });
  const second = await asker.ask("GET", next);
  assertEquals(namesOf(second.json.items), ["n/q", "n/r"]);
  assertEquals(second.json.items[1].metadata.labels, undefined);
  assertEquals(second.json.metadata, { resourceVersion: version });
  const whole = await asker.ask(
    "GET",
    "/api/v1/pods?limit=3&resourceVersion=0",
  );
  assertEquals(namesOf(whole.json.items), ["m/q", "m/r", "n/p", "n/r", "n/z"]);
  assertEquals(
    (await asker.ask("GET", `${next}&resourceVersion=0`)).status,
    400,
  );
  api.compact();
  const { status, json } = await asker.ask("GET", next);
  assertEquals([status, json.reason], [410, "Expired"]);
});

Deno.test("KubeApi sends the kind of listed objects only for custom resources", async () => {
  await using scene = await ApiScene.create();
  const kindOf = async (path: string): Promise<string> =>
    (await scene.asker.ask("GET", path)).json.items[0].kind;
  assertEquals(await kindOf(PODS), undefined);
  assertEquals(await kindOf(NADS), "NetworkAttachmentDefinition");
});

Deno.test("KubeApi compresses large responses for clients that accept it", async () => {
  await using scene = await ApiScene.create();
  const annotations = { a: "x".repeat(200_000) };
  scene.api.putPod({ metadata: { namespace: "n", name: "big", annotations } });
  for (
    const [coding, isCompressed] of [["gzip", true], ["br", false]] as const
  ) {
    const { headers, json } = await scene.asker.ask("GET", `${PODS}/big`, {
      headers: { "accept-encoding": coding },
    });
    const length = Number(headers.get("content-length"));
    assertEquals(length < 200_000, isCompressed);
    assertEquals(json.metadata.annotations, annotations);
  }
});

Deno.test("KubeApi.putPod() replaces the pod if the UID differs", async () => {
  await using scene = await ApiScene.create();
  const { api } = scene;
  const metadata = { namespace: "n", name: "p" };
  assertEquals(api.putPod({ metadata }).metadata.uid, "u1");
  const other = api.putPod({ metadata: { ...metadata, uid: "u2" } });
  assertEquals(other.metadata.uid, "u2");
  api.removePod("n", "p");
  assertEquals(api.pod("n", "p"), undefined);
  assert(!["u1", "u2"].includes(api.putPod({ metadata }).metadata.uid));
});

Deno.test("KubeApi.networkStatus() decodes the annotation", async () => {
  await using scene = await ApiScene.create();
  assertEquals(scene.api.networkStatus("n", "p"), undefined);
  const key = "k8s.v1.cni.cncf.io/network-status";
  await scene.asker.patch(`${PODS}/p/status`, {
    metadata: { annotations: { [key]: '[{"name":"net"}]' } },
  });
  assertEquals(scene.api.networkStatus("n", "p"), [{ name: "net" }]);
});

Deno.test("KubeApi logs requests", async () => {
  await using scene = await ApiScene.create();
  const { api, asker } = scene;
  await asker.ask("GET", `${PODS}/p?a=b`);
  await asker.patch(`${PODS}/x/status`, { metadata: {} });
  assertEquals(
    api.requests.map(({ method, path, user, httpVersion, body, status }) => [
      ...[method, path, user, httpVersion, body, status],
    ]),
    [
      [
        "GET",
        `${PODS}/p?a=b`,
        "system:serviceaccount:kube-system:multus",
        "1.1",
        "",
        200,
      ],
      [
        "PATCH",
        `${PODS}/x/status`,
        "system:serviceaccount:kube-system:multus",
        "1.1",
        '{"metadata":{}}',
        404,
      ],
    ],
  );
  assertEquals(api.requestsOf("GET", /pods/).length, 1);
  assertEquals(api.requestsOf("", /\/status$/).length, 1);
  assertEquals(api.requestsOf("DELETE"), []);
  assertEquals(api.connections, 1);
  api.clearRequests();
  assertEquals(api.requests, []);
});

testRows(
  "KubeApi.offeredProtocols tells what clients could speak besides",
  [[true, ["h2", "http/1.1"]], [false, ["http/1.1"]]] as const,
  async ([http2, expected]) => {
    await using api = await KubeApi.start();
    using client = Deno.createHttpClient({ caCerts: [api.caPem], http2 });
    const response = await fetch(`${api.url}/readyz`, { client });
    assertEquals(await response.text(), "ok");
    assertEquals([...api.offeredProtocols], [...expected]);
    assertEquals(api.requests.at(-1)?.httpVersion, "1.1");
  },
  ([, expected]) => expected.join(" and "),
);
