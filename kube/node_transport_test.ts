import { assert, assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../base/error.ts";
import { KubeApi } from "./testing/kube_api.ts";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import type { KubeClient } from "./client.ts";
import { eachRow } from "../tests/_harness/table.ts";

async function readPod(client: KubeClient): Promise<string | undefined> {
  return (await client.getPod("test", "p1")).metadata?.uid;
}

Deno.test("NodeTransport trusts any server with insecure-skip-tls-verify", async (t) => {
  const rows = [
    ["of an unknown authority", {}],
    ["of another name", { serverNames: ["a.example"] }],
    ["expired", { isExpired: true }],
  ] as const;
  await eachRow(t, rows, async ([, options]) => {
    await using scene = await KubeScene.start(options);
    using client = await scene.open("insecure");
    assertEquals(await readPod(client), "u1");
  });
  await t.step("and shows its own certificate", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open("clientCertData", {
      cluster: {
        "insecure-skip-tls-verify": true,
        "certificate-authority-data": undefined,
      },
    });
    assertEquals(await readPod(client), "u1");
    assertEquals(scene.api.requests.at(-1)?.user, "multus");
  });
});

Deno.test("NodeTransport verifies tls-server-name", async (t) => {
  await using scene = await KubeScene.start({
    serverNames: [KubeApi.serverName],
  });
  await t.step("the certificate has it", async () => {
    const cluster = { "tls-server-name": KubeApi.serverName };
    using client = await scene.open("clientCertData", { cluster });
    assertEquals(await readPod(client), "u1");
  });
  await t.step("the certificate does not have it", async () => {
    const cluster = { "tls-server-name": "b.example" };
    using client = await scene.open("token", { cluster });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assert(
      error.message.endsWith("x509: certificate is not valid for b.example"),
      error.message,
    );
    assertEquals(error.isUntrusted, true);
  });
  await t.step("the authority is unknown", async () => {
    const cluster = {
      "tls-server-name": KubeApi.serverName,
      "certificate-authority-data": undefined,
    };
    using client = await scene.open("token", { cluster });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assert(
      error.message.endsWith("signed by unknown authority"),
      error.message,
    );
    assertEquals(error.isUntrusted, true);
  });
});

Deno.test("NodeTransport behaves like fetch", async (t) => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  const user = { as: "jane", "as-groups": ["a", "b"] };
  await t.step("it repeats headers of the same name", async () => {
    using client = await scene.open("insecure", { user });
    await readPod(client).catch(() => {});
    assertEquals(api.requests.at(-1)?.headers["impersonate-group"], "a, b");
  });
  await t.step("it reads the server's message", async () => {
    using client = await scene.open("insecure");
    const error = await kubeErrorOf(client.getPod("test", "p2"));
    assertEquals(error.message, 'pods "p2" not found');
  });
  await t.step("it reads Retry-After", async () => {
    using client = await scene.open("insecure");
    api.fault({ status: 429, retryAfter: 60, times: 1 });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals(error.retryAfterMs, 60_000);
  });
  await t.step("it watches", async () => {
    using client = await scene.open("insecure");
    const { metadata } = await client.list("/api/v1/pods");
    const { resourceVersion = "" } = metadata ?? {};
    const events = client.watch("/api/v1/pods", { resourceVersion });
    api.putPod({ metadata: { namespace: "test", name: "p3" } });
    assertEquals((await events.next()).value?.type, "ADDED");
    await events.return();
  });
  await eachRow(t, ["before", "mid-body"] as const, async (drop) => {
    using client = await scene.open("insecure");
    api.fault({ drop, times: 1 });
    // A POST is not repeated.
    const involvedObject = { namespace: "test", name: "p1" };
    const event = { metadata: { name: "e1" }, involvedObject };
    const error = await kubeErrorOf(client.createEvent("test", event));
    assert(/: (unexpected )?EOF$/.test(error.message), error.message);
  }, (drop) => `it notices that the connection is cut: ${drop}`);
  await t.step("it limits the connections", async () => {
    using client = await scene.open("insecure");
    const before = api.connections;
    await Promise.all(Array.from({ length: 40 }, () => readPod(client)));
    assertEquals(api.connections - before, 18);
  });
  await t.step("the connection is refused", async () => {
    using client = await scene.open("insecure");
    await api.stop();
    const times = { overallMs: 200 };
    const error = await kubeErrorOf(client.getPod("test", "p1", times));
    assertEquals([error.status, error.isUnsent], [0, true]);
    await api.restart();
  });
});

Deno.test("NodeTransport cannot use a proxy", async () => {
  await using scene = await KubeScene.start();
  const cluster = { "proxy-url": "http://u:secret@127.0.0.1:1" };
  const opened = scene.open("insecure", { cluster });
  const error = await assertRejects(() => opened, CniError);
  assertEquals([error.code, error.message], [
    7,
    `Cannot use kubeconfig "${scene.directory.path}/kubeconfig": proxy-url cannot be combined with insecure-skip-tls-verify, tls-server-name or a server that is its own authority`,
  ]);
});
