import { assert, assertEquals } from "@std/assert";
import { TunnelProxy } from "../tests/_harness/tunnel_proxy.ts";
import { kubeErrorOf, KubeScene } from "../tests/_harness/kube_scene.ts";
import { testTransport } from "../tests/_harness/transport_cases.ts";

// A client certificate is one of the features that require `fetch`.
testTransport({
  name: "FetchTransport",
  kind: "clientCert",
  // A request uses a connection that becomes idle while its own is being
  // opened.
  leastConnections: 1,
});

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

Deno.test("FetchTransport speaks without TLS where it is told", async () => {
  await using scene = await KubeScene.start({ transport: "http" });
  using client = await scene.open("token");
  assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
});
