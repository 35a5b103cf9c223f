import { assert, assertEquals, assertMatch } from "@std/assert";
import { eventually } from "../tests/_harness/eventually.ts";
import { kubeErrorOf, KubeScene } from "../tests/_harness/kube_scene.ts";
import { testTransport } from "../tests/_harness/transport_cases.ts";
import type { Pod } from "./types.ts";

testTransport({ name: "TlsTransport", kind: "token", leastConnections: 3 });

Deno.test("TlsTransport refuses what is no certificate", async () => {
  await using scene = await KubeScene.start();
  const pem = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
  const cluster = { "certificate-authority-data": btoa(pem) };
  const error = await scene.open("token", { cluster }).catch((error) => error);
  assertEquals(error.code, 7);
});

Deno.test("TlsTransport reaches IPv6 addresses, and names", async (t) => {
  await t.step("::1", async () => {
    await using scene = await KubeScene.start({ hostname: "::1" });
    using client = await scene.open();
    assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
  });
  await t.step("localhost", async () => {
    await using scene = await KubeScene.start({ serverNames: ["localhost"] });
    const server = scene.api.url.replace("127.0.0.1", "localhost");
    using client = await scene.open("token", { server });
    assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
  });
});

Deno.test("TlsTransport uses no connection that the server has closed", async (t) => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  const write = (value: string): Promise<void> =>
    client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: value });
  await t.step("meanwhile", async () => {
    await Promise.all(["1", "2", "3"].map(write));
    await scene.api.restart();
    // A read is repeated if it finds the connection closed. A write is not.
    await client.getPod("test", "p1");
    await Promise.all(["4", "5", "6"].map(write));
    assertEquals(scene.api.connections, 6);
  });
  await t.step("with its answer", async () => {
    scene.api.fault({ headers: { connection: "close" }, times: 1 });
    await write("7");
    await Promise.all(["8", "9", "10"].map(write));
    assertEquals(scene.api.connections, 7);
  });
});

Deno.test("TlsTransport reads long answers", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  const note = "ä".repeat(300_000);
  const metadata = { namespace: "test", name: "p1", annotations: { note } };
  scene.api.putPod({ metadata });
  for (let time = 0; time < 2; time++) {
    const pod = await client.getPod("test", "p1");
    assertEquals(pod.metadata?.annotations?.["note"], note);
  }
  assertEquals(scene.api.connections, 1);
});

Deno.test("TlsTransport ends a connection in the middle of an answer", async (t) => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  await t.step("when nobody wants the rest", async () => {
    const path = "/api/v1/namespaces/test/pods";
    const events = client.watch<Pod>(path, { resourceVersion: "0" });
    assertEquals((await events.next()).done, false);
    await events.return();
    await eventually("the watch ends", () => scene.api.watchCount === 0);
  });
  await t.step("when it breaks off", async () => {
    scene.api.fault({ drop: "mid-body", times: 1 });
    const times = { overallMs: 100 };
    const error = await kubeErrorOf(client.getPod("test", "p1", times));
    assert(error.message.endsWith(": unexpected EOF"), error.message);
  });
  await t.step("and goes on with others", async () => {
    assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
  });
});

Deno.test("TlsTransport sends at once", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  await client.getPod("test", "p1");
  assertEquals(readNoDelay(scene.api.port), [true]);
});

const SOCKET_OPTIONS = {
  getsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "buffer"],
    result: "i32",
  },
} as const;
const IPPROTO_TCP = 6, TCP_NODELAY = 1;

/** Reads whether our connections to a port have TCP_NODELAY. */
function readNoDelay(port: number): boolean[] {
  const peer = `:${port.toString(16).padStart(4, "0").toUpperCase()}`;
  const inodes = Deno.readTextFileSync("/proc/self/net/tcp").split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , remote = "", state]) =>
      remote.endsWith(peer) && state === "01"
    )
    .map((fields) => `socket:[${fields[9]}]`);
  using stack = new DisposableStack();
  const libc = stack.adopt(
    Deno.dlopen("libc.so.6", SOCKET_OPTIONS),
    (libc) => libc.close(),
  );
  return listDescriptors(inodes).map((fd) => {
    const value = new Int32Array(1), length = Uint32Array.of(4);
    const { getsockopt } = libc.symbols;
    const rc = getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, value, length);
    assertEquals(rc, 0);
    return value[0] !== 0;
  });
}

function listDescriptors(targets: readonly string[]): number[] {
  return [...Deno.readDirSync("/proc/self/fd")].map(({ name }) => name)
    .filter((name) => {
      try {
        return targets.includes(Deno.readLinkSync(`/proc/self/fd/${name}`));
      } catch {
        return false;
      }
    }).map(Number);
}

Deno.test("TlsTransport knows a server that refuses us for good", async () => {
  await using scene = await KubeScene.start({ needsCertificate: true });
  using client = await scene.open("token");
  const error = await kubeErrorOf(client.getPod("test", "p1"));
  assertMatch(error.message, /: remote error: tls: certificate required$/);
  assertEquals([error.status, error.isUntrusted], [0, true]);
  using certified = await scene.open("clientCert");
  assertEquals((await certified.getPod("test", "p1")).metadata?.uid, "u1");
});
