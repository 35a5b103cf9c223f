import { assert, assertEquals } from "@std/assert";
import { TunnelProxy } from "../tests/_harness/tunnel_proxy.ts";
import { kubeErrorOf, KubeScene } from "../tests/_harness/kube_scene.ts";

// A client certificate is one of the things that take `fetch`.

Deno.test("FetchTransport reaches the server through a proxy", async (t) => {
  await using scene = await KubeScene.start();
  const rows = [
    ["http", "", undefined],
    ["http", "us%40er:pa%3Ass@", "us@er:pa:ss"],
    ["socks5", "", undefined],
    ["socks5h", "user:pass@", "user:pass"],
  ] as const;
  for (const [scheme, userinfo, credentials] of rows) {
    await t.step(`${scheme}://${userinfo}`, async () => {
      using proxy = new TunnelProxy(scheme === "http" ? "http" : "socks5");
      const url = `${scheme}://${userinfo}127.0.0.1:${proxy.port}`;
      using client = await scene.open("token", {
        cluster: { "proxy-url": url },
      });
      const pod = await client.getPod("test", "p1");
      assertEquals(pod.metadata?.uid, "u1");
      assertEquals(proxy.tunnels, [{ port: scene.api.port, credentials }]);
    });
  }
  await t.step("that is not there", async () => {
    const proxy = new TunnelProxy("http");
    proxy[Symbol.dispose]();
    using client = await scene.open("token", {
      cluster: { "proxy-url": `http://u:secret@127.0.0.1:${proxy.port}` },
    });
    const times = { overallMs: 300 };
    const error = await kubeErrorOf(client.getPod("test", "p1", times));
    assertEquals([error.status, error.isUnsent], [0, true]);
    assert(!error.message.includes("secret"), error.message);
  });
});

Deno.test("FetchTransport follows nobody elsewhere", async (t) => {
  await using scene = await KubeScene.start();
  await using other = await KubeScene.start();
  using client = await scene.open("clientCert");
  for (const status of [301, 302, 303, 307, 308]) {
    await t.step(String(status), async () => {
      const location = `${other.api.url}/api/v1/namespaces/test/pods/p1`;
      scene.api.fault({ status, headers: { location }, times: 1 });
      const error = await kubeErrorOf(client.getPod("test", "p1"));
      assertEquals(error.status, status);
    });
  }
  assertEquals(other.api.requests.length, 0);
});

Deno.test("FetchTransport trusts nobody that it need not", async (t) => {
  const verify = "tls: failed to verify certificate: x509: certificate ";
  const rows = [
    [
      "expired",
      { isExpired: true },
      {},
      `${verify}has expired or is not yet valid`,
    ],
    [
      "another name",
      { serverNames: ["a.example"] },
      {},
      `${verify}is not valid for 127.0.0.1`,
    ],
    [
      "another authority",
      {},
      {
        "certificate-authority": undefined,
        "certificate-authority-data": undefined,
      },
      `${verify}signed by unknown authority`,
    ],
  ] as const;
  for (const [name, options, cluster, why] of rows) {
    await t.step(name, async () => {
      await using scene = await KubeScene.start(options);
      using client = await scene.open("clientCert", { cluster });
      const startMs = performance.now();
      const error = await kubeErrorOf(client.getPod("test", "p1"));
      assert(error.message.endsWith(`: ${why}`), error.message);
      assertEquals([error.isUntrusted, scene.api.requests.length], [true, 0]);
      assert(performance.now() - startMs < 1000, "it is not tried again");
    });
  }
  await t.step("no TLS", async () => {
    await using scene = await KubeScene.start({ transport: "http" });
    const server = scene.api.url.replace("http:", "https:");
    using client = await scene.open("clientCert", { server });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals([error.isUntrusted, scene.api.requests.length], [true, 0]);
  });
});

Deno.test("FetchTransport speaks without TLS where it is told", async () => {
  await using scene = await KubeScene.start({ transport: "http" });
  using client = await scene.open("token");
  assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
});

Deno.test("FetchTransport speaks HTTP/1.1, which sends a body with its headers", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open("clientCert");
  await client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: "b" });
  assertEquals(scene.api.requests.at(-1)?.httpVersion, "1.1");
});

Deno.test("FetchTransport has a connection for each of parallel requests, and uses them again", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open("clientCert");
  const getAll = (): Promise<unknown> =>
    Promise.all([1, 2, 3].map(() => client.getPod("test", "p1")));
  await getAll();
  await getAll();
  assert(scene.api.connections <= 3, `${scene.api.connections} connections`);
});

Deno.test("FetchTransport leaves a server that has gone silent", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open("clientCert");
  await client.getPod("test", "p1");
  await scene.api.blackhole();
  const startMs = performance.now();
  const waiting = client.getPod("test", "p1", {
    perTryMs: 200,
    overallMs: 5000,
  });
  await kubeErrorOf(client.getPod("test", "p1", { overallMs: 300 }));
  await scene.api.restart();
  assertEquals((await waiting).metadata?.uid, "u1");
  assert(performance.now() - startMs < 2000);
});
