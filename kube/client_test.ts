import { assert, assertEquals, assertRejects } from "@std/assert";
import { pause } from "../base/deadline.ts";
import { CniError } from "../base/error.ts";
import { moduleCommand } from "../tests/_harness/as_module.ts";
import { eventually } from "../tests/_harness/eventually.ts";
import type { KubeconfigKind } from "./testing/kubeconfig.ts";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import { openKubeClient } from "./client.ts";
import { eachRow } from "../tests/_harness/table.ts";

const SERVICE_ACCOUNT = "system:serviceaccount:kube-system:multus";

Deno.test("openKubeClient() authenticates with every kind of credentials", async (t) => {
  await using scene = await KubeScene.start();
  const rows: readonly [KubeconfigKind, string][] = [
    ["token", SERVICE_ACCOUNT],
    ["tokenFile", SERVICE_ACCOUNT],
    ["clientCert", "multus"],
    ["clientCertBundle", "multus"],
    ["clientCertData", "multus"],
    ["basic", "multus"],
    ["insecure", SERVICE_ACCOUNT],
    ["exec", SERVICE_ACCOUNT],
  ];
  for (const [kind, user] of rows) {
    await eachRow(t, ["yaml", "json"] as const, async (format) => {
      using client = await scene.open(kind, { format });
      const pod = await client.getPod("test", "p1");
      assertEquals(pod.metadata?.uid, "u1");
      assertEquals(scene.api.requests.at(-1)?.user, user);
    }, (format) => `${kind}, as ${format}`);
  }
  await t.step("none: anonymous", async () => {
    using client = await scene.open("none");
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals([error.status, error.reason], [403, "Forbidden"]);
    assert(error.message.includes('User "system:anonymous" cannot get'));
  });
});

Deno.test("openKubeClient() returns undefined without a cluster", async (t) => {
  for (const kubeconfig of [undefined, ""]) {
    await eachRow(t, ["", "KUBERNETES_SERVICE_HOST"], async (name) => {
      const env = name === "" ? {} : { [name]: "10.0.0.1" };
      assertEquals(await openKubeClient({ kubeconfig, env }), undefined);
    }, (name) => `${kubeconfig}, with ${name || "nothing"}`);
  }
});

Deno.test("openKubeClient() refuses an unusable kubeconfig", async (t) => {
  await using scene = await KubeScene.start();
  const pem = (label: string): string =>
    btoa(`-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`);
  const rows: readonly [string, Record<string, unknown>][] = [
    ["authority", {
      cluster: { "certificate-authority-data": pem("CERTIFICATE") },
    }],
    ["key", { user: { "client-key-data": pem("PRIVATE KEY") } }],
    ["key of another", {
      user: {
        "client-key-data": btoa((await scene.api.issueClientCert("other")).key),
      },
    }],
  ];
  await eachRow(t, rows, async ([, overrides]) => {
    const opened = scene.open("clientCertData", overrides);
    const error = await assertRejects(() => opened, CniError);
    const start =
      `Cannot use kubeconfig "${scene.directory.path}/kubeconfig": `;
    assertEquals([error.code, error.message.slice(0, start.length)], [
      7,
      start,
    ]);
  });
});

Deno.test("KubeClient reads networks, claims and slices", async (t) => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  using client = await scene.open();
  await t.step("networks", async () => {
    api.putNad("test", "net1", '{"type":"x"}', { a: "b" });
    const nad = await client.getNetworkAttachmentDefinition("test", "net1");
    assertEquals(nad.spec?.config, '{"type":"x"}');
    assertEquals(nad.metadata?.annotations?.["a"], "b");
  });
  await t.step("claims", async () => {
    const metadata = { namespace: "test", name: "c1" };
    const results = [{ request: "r", driver: "d", pool: "p", device: "x" }];
    api.putClaim({
      metadata,
      status: { allocation: { devices: { results } } },
    });
    const claim = await client.getResourceClaim("test", "c1");
    assertEquals(claim.status?.allocation?.devices?.results, results);
  });
  await t.step("slices", async () => {
    for (const [name, nodeName] of [["s1", "n1"], ["s2", "n2"]] as const) {
      const spec = { driver: "d", nodeName, pool: { name: "p" } };
      api.putSlice({ metadata: { name }, spec });
    }
    const names = async (nodeName?: string): Promise<unknown[]> =>
      (await client.listResourceSlices({ driver: "d", nodeName }))
        .map(({ metadata }) => metadata?.name);
    assertEquals(await names("n1"), ["s1"]);
    assertEquals(await names(), ["s1", "s2"]);
    assertEquals(await client.listResourceSlices({ driver: "e" }), []);
  });
});

Deno.test("KubeClient.createEvent() creates an event", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  await client.createEvent("test", {
    metadata: { name: "p1.1", namespace: "test" },
    involvedObject: { kind: "Pod", namespace: "test", name: "p1" },
    type: "Normal",
    reason: "AddedInterface",
    message: "Add eth0",
  });
  assertEquals(scene.api.eventTexts, ["Normal AddedInterface Add eth0"]);
});

Deno.test("KubeClient fails with the server's message", async (t) => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  await t.step("the pod does not exist", async () => {
    const error = await kubeErrorOf(client.getPod("test", "p2"));
    assertEquals(
      [error.status, error.reason, error.message],
      [404, "NotFound", 'pods "p2" not found'],
    );
  });
  await t.step("reading is forbidden", async () => {
    scene.api.forbid("get", "pods");
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals([error.status, error.reason], [403, "Forbidden"]);
    assertEquals(scene.api.requestsOf("GET", /p1/).length, 1);
    scene.api.allow("get", "pods");
  });
  await eachRow(t, ["", "..", "a/b", "%2e"], async (name) => {
    const before = scene.api.requests.length;
    const error = await kubeErrorOf(client.getPod("test", name));
    assertEquals([error.status, scene.api.requests.length], [400, before]);
  }, (name) => `an invalid name: "${name}"`);
});

Deno.test("KubeClient.list() reads all pages of a list", async (t) => {
  await using scene = await KubeScene.start();
  for (let number = 2; number <= 7; number++) {
    scene.api.putPod({ metadata: { namespace: "test", name: `p${number}` } });
  }
  using client = await scene.open();
  const path = "/api/v1/namespaces/test/pods";
  await t.step("in three requests", async () => {
    const { items, metadata } = await client.list(path, { limit: 3 });
    assertEquals(items?.length, 7);
    assert(Number(metadata?.resourceVersion) > 0);
    assertEquals(scene.api.requestsOf("GET", /pods\?/).length, 3);
  });
  await t.step("with selectors", async () => {
    const fieldSelector = "metadata.name=p3";
    const { items } = await client.list(path, { fieldSelector });
    assertEquals(items?.length, 1);
  });
  await t.step("in shorter pages if the objects are large", async () => {
    const before = scene.api.requestsOf("GET", /pods\?/).length;
    const annotations = { large: "x".repeat(3 * 2 ** 20) };
    for (let number = 1; number <= 7; number++) {
      const metadata = { namespace: "test", name: `p${number}`, annotations };
      scene.api.putPod({ metadata });
    }
    const times = { perTryMs: 60_000, overallMs: 60_000 };
    const { items } = await client.list(path, times);
    assertEquals(items?.length, 7);
    const limits = scene.api.requestsOf("GET", /pods\?/).slice(before)
      .map(({ path }) => /limit=(\d+)/.exec(path)?.[1]);
    assertEquals(limits, ["500", "125", "32", "8", "2", "4", "8"]);
  });
  await t.step("unless the page token expires", async () => {
    scene.api.fault({ path: /continue=/, status: 410 });
    const error = await kubeErrorOf(client.list(path, { limit: 3 }));
    assertEquals(error.status, 410);
  });
});

Deno.test("KubeClient uses one connection for sequential requests", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  for (let times = 0; times < 5; times++) await client.getPod("test", "p1");
  assertEquals(scene.api.connections, 1);
});

Deno.test("KubeClient does not keep the process alive", async (t) => {
  await using scene = await KubeScene.start();
  await eachRow(t, ["token", "insecure", "exec"] as const, async (kind) => {
    const path = scene.api.writeKubeconfig(scene.directory.path, kind);
    const times = { perTryMs: 60_000, overallMs: 60_000 };
    // The client is never closed.
    const script = `
        import { openKubeClient } from "${import.meta.resolve("./client.ts")}";
        const options = { kubeconfig: "${path}", env: Deno.env.toObject() };
        const client = await openKubeClient(options);
        await client.getPod("test", "p1", ${JSON.stringify(times)});
        console.log("done");`;
    const startMs = performance.now();
    const { stdout } = await (await moduleCommand(script)).output();
    assertEquals(new TextDecoder().decode(stdout), "done\n");
    assert(performance.now() - startMs < 45_000, "it waited for something");
  });
});

Deno.test("KubeClient reads a response that arrived while its process was stopped", async () => {
  await using scene = await KubeScene.start();
  const path = scene.api.writeKubeconfig(scene.directory.path);
  scene.api.fault({ path: /p1$/, delayMs: 100 });
  const times = { perTryMs: 300, overallMs: 300 };
  const script = `
      import { openKubeClient } from "${import.meta.resolve("./client.ts")}";
      const client = await openKubeClient({ kubeconfig: "${path}", env: {} });
      const pod = await client.getPod("test", "p1", ${JSON.stringify(times)});
      console.log(pod.metadata.uid);`;
  const command = await moduleCommand(script, { stdout: "piped" });
  const child = command.spawn();
  const { requests } = scene.api;
  await eventually("it has asked", () => requests.length > 0);
  child.kill("SIGSTOP");
  await eventually("it is answered", () => requests[0]?.status === 200);
  // Longer than all its limits together.
  await pause(1000);
  child.kill("SIGCONT");
  const { stdout } = await child.output();
  assertEquals(new TextDecoder().decode(stdout), "u1\n");
  assertEquals(requests.length, 1);
});

Deno.test("KubeClient reaches a server at an IPv6 address", async () => {
  await using scene = await KubeScene.start({ hostname: "::1" });
  using client = await scene.open();
  assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
});

Deno.test("KubeClient can be disposed of twice", async (t) => {
  await using scene = await KubeScene.start();
  await eachRow(t, ["token", "insecure"] as const, async (kind) => {
    using client = await scene.open(kind);
    await client.getPod("test", "p1");
    client[Symbol.dispose]();
  });
});
