import { assert, assertEquals } from "@std/assert";
import { PluginFolder } from "../tests/_harness/plugin_folder.ts";
import { kubeErrorOf } from "../tests/_harness/kube_scene.ts";
import { TunnelProxy } from "../tests/_harness/tunnel_proxy.ts";
import { type KubeClient, openKubeClient } from "./client.ts";

/** A self-signed authority for 127.0.0.1, valid from 2020 to 2120. */
const CERT = `-----BEGIN CERTIFICATE-----
MIIBeDCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDEwRzZWxmMCAX
DTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDEwRzZWxm
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEt7TNnmWGl4VXn4Z3BnOUUhzVCnkH
PxIyzSi7uhM5Y3PRvsX59BxGreSQgdt3pf/0+lHP59SHErokLUtiltnssKNoMGYw
DgYDVR0PAQH/BAQDAgKEMBMGA1UdJQQMMAoGCCsGAQUFBwMBMA8GA1UdEwEB/wQF
MAMBAf8wHQYDVR0OBBYEFIUEFaGthgdtayvTSgBw5kUf1iMkMA8GA1UdEQQIMAaH
BH8AAAEwCgYIKoZIzj0EAwIDSQAwRgIhAPG7p2qG3GVA+RX/N1uBViwn3zerW9fV
LZInSEym8ViQAiEA9uk0xrFIfw/Yp8Ka1Mu5yZneqLu1RgXZyHqw+4Mw2P0=
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgK1sVHE9ZXNmoFRaK
bEY+8tMl8bHY2tI6k4ujEyjlbyOhRANCAAS3tM2eZYaXhVefhncGc5RSHNUKeQc/
EjLNKLu6Ezljc9G+xfn0HEat5JCB23el//T6Uc/n1IcSuiQtS2KW2eyw
-----END PRIVATE KEY-----
`;

/** A server with a self-signed certificate and one pod. */
class Scene implements AsyncDisposable {
  readonly #folder = new PluginFolder();
  readonly #server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    cert: CERT,
    key: KEY,
    onListen: () => {},
  }, (request) => {
    this.requests.push(request.method);
    return Response.json({ metadata: { uid: "u1" } });
  });
  readonly requests: string[] = [];

  get url(): string {
    return `https://127.0.0.1:${this.#server.addr.port}`;
  }

  async open(cluster: object = {}): Promise<KubeClient> {
    const kubeconfig = this.#folder.addFile(
      "kubeconfig",
      JSON.stringify({
        "current-context": "c",
        contexts: [{ name: "c", context: { cluster: "c" } }],
        clusters: [{
          name: "c",
          cluster: {
            server: this.url,
            "certificate-authority-data": btoa(CERT),
            ...cluster,
          },
        }],
      }),
    );
    const client = await openKubeClient({ kubeconfig, env: {} });
    assert(client !== undefined, "a kubeconfig leads to a client");
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#folder[Symbol.dispose]();
    await this.#server.shutdown();
  }
}

Deno.test("SelfSignedTransport reaches a server that is its own authority", async () => {
  await using scene = new Scene();
  using client = await scene.open();
  const getPod = (): Promise<unknown> => client.getPod("test", "p1");
  await Promise.all([getPod(), getPod(), getPod()]);
  await client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: "b" });
  assertEquals(scene.requests, ["GET", "GET", "GET", "PATCH"]);
});

Deno.test("SelfSignedTransport trusts no other such server", async (t) => {
  await using scene = new Scene();
  await t.step("whose certificate is not known", async () => {
    using client = await scene.open({ "certificate-authority-data": "" });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assert(
      error.message.endsWith("signed by unknown authority"),
      error.message,
    );
    assertEquals(error.isUntrusted, true);
  });
  await t.step("which has another name", async () => {
    const server = scene.url.replace("127.0.0.1", "localhost");
    using client = await scene.open({ server });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assert(error.message.endsWith("is not valid for localhost"), error.message);
  });
  await t.step("behind a proxy", async () => {
    using proxy = new TunnelProxy("http");
    const url = `http://127.0.0.1:${proxy.port}`;
    using client = await scene.open({ "proxy-url": url });
    const error = await kubeErrorOf(
      client.getPod("test", "p1", { overallMs: 100 }),
    );
    assert(error.message.includes(": proxy-url is of no use"), error.message);
  });
  assertEquals(scene.requests, []);
});
