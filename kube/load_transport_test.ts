import { assert, assertEquals, assertMatch } from "@std/assert";
import { moduleCommand } from "../tests/_harness/as_module.ts";
import { eventually } from "../tests/_harness/eventually.ts";
import type { KubeApiOptions } from "./testing/kube_api.ts";
import type { KubeconfigKind } from "./testing/kubeconfig.ts";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { type KubeClient, openKubeClient } from "./client.ts";
import type { Pod } from "./types.ts";

/** A transport. */
interface TransportCase {
  /** As tests name it. */
  readonly name: string;
  /** A kubeconfig for it. */
  readonly kind: KubeconfigKind;
  /** Whether it is for a process that serves many calls. */
  readonly isResident?: boolean;
  /**
   * How many connections three requests take at least that are sent at the same
   * time. They take three at most.
   */
  readonly leastConnections: number;
}

/** Tests a transport. */
function testTransport(transport: TransportCase): void {
  const { name } = transport;
  Deno.test(`${name} trusts no other servers`, (t) => {
    return testTrust(t, transport);
  });
  Deno.test(`${name} does not follow redirects`, (t) => {
    return testRedirects(t, transport);
  });
  Deno.test(`${name} uses HTTP/1.1, which sends a body with its headers`, () => {
    return testProtocol(transport);
  });
  Deno.test(`${name} opens a connection per concurrent request, and reuses it`, () => {
    return testConnections(transport);
  });
  Deno.test(`${name} reconnects to a server that went silent`, () => {
    return testSilence(transport);
  });
}

const VERIFY = "tls: failed to verify certificate: x509: certificate";

/** Node in Deno reports expired and unknown certificates with the same code. */
const NODE_EXPIRED = `${VERIFY} signed by unknown authority, or has expired`;

/** Servers that must not be trusted. */
const UNTRUSTED: readonly (readonly [
  name: string,
  options: KubeApiOptions,
  cluster: Readonly<Record<string, unknown>>,
  why: string,
])[] = [
  [
    "expired",
    { isExpired: true },
    {},
    `${VERIFY} has expired or is not yet valid`,
  ],
  [
    "another name",
    { serverNames: ["a.example"] },
    {},
    `${VERIFY} is not valid for 127.0.0.1`,
  ],
  [
    "another authority",
    {},
    {
      "certificate-authority": undefined,
      "certificate-authority-data": undefined,
    },
    `${VERIFY} signed by unknown authority`,
  ],
];

async function testTrust(
  t: Deno.TestContext,
  { kind, ...process }: TransportCase,
): Promise<void> {
  for (const [name, options, cluster, why] of UNTRUSTED) {
    await t.step(name, async () => {
      await using scene = await KubeScene.start(options);
      using client = await scene.open(kind, { cluster }, process);
      const startMs = performance.now();
      const error = await kubeErrorOf(
        client.getPod("test", "p1", { overallMs: 60_000 }),
      );
      const isExpired = process.isResident && name === "expired";
      const expected = isExpired ? NODE_EXPIRED : why;
      assert(error.message.endsWith(`: ${expected}`), error.message);
      assertEquals([error.isUntrusted, error.isUnsent], [true, true]);
      assertEquals(scene.api.requests.length, 0);
      assert(performance.now() - startMs < 30_000, "it was tried again");
    });
  }
  await t.step("no TLS", async () => {
    await using scene = await KubeScene.start({ transport: "http" });
    const server = scene.api.url.replace("http:", "https:");
    using client = await scene.open(kind, { server }, process);
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals([error.isUntrusted, scene.api.requests.length], [true, 0]);
  });
}

async function testRedirects(
  t: Deno.TestContext,
  { kind, ...process }: TransportCase,
): Promise<void> {
  await using scene = await KubeScene.start();
  await using other = await KubeScene.start();
  using client = await scene.open(kind, {}, process);
  for (const status of [301, 302, 303, 307, 308]) {
    await t.step(String(status), async () => {
      const location = `${other.api.url}/api/v1/namespaces/test/pods/p1`;
      scene.api.fault({ status, headers: { location }, times: 1 });
      const error = await kubeErrorOf(client.getPod("test", "p1"));
      assertEquals(error.status, status);
    });
  }
  assertEquals(other.api.requests.length, 0);
}

async function testProtocol(
  { kind, ...process }: TransportCase,
): Promise<void> {
  await using scene = await KubeScene.start();
  using client = await scene.open(kind, {}, process);
  await client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: "b" });
  assertEquals(scene.api.requests.at(-1)?.httpVersion, "1.1");
  assertEquals(scene.api.offeredProtocols.has("h2"), false);
}

async function testConnections(
  { kind, leastConnections, ...process }: TransportCase,
): Promise<void> {
  await using scene = await KubeScene.start();
  using client = await scene.open(kind, {}, process);
  const getAll = (): Promise<unknown> =>
    Promise.all([1, 2, 3].map(() => client.getPod("test", "p1")));
  await getAll();
  await client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: "b" });
  await getAll();
  const { connections } = scene.api;
  assert(
    connections >= leastConnections && connections <= 3,
    `${connections} connections`,
  );
}

async function testSilence({ kind, ...process }: TransportCase): Promise<void> {
  await using scene = await KubeScene.start();
  using client = await scene.open(kind, {}, process);
  await client.getPod("test", "p1");
  await scene.api.blackhole();
  const startMs = performance.now();
  const waiting = client.getPod("test", "p1", {
    perTryMs: 1000,
    overallMs: 60_000,
  });
  const error = await kubeErrorOf(
    client.getPod("test", "p1", { overallMs: 300 }),
  );
  assertEquals(error.isTimeout, true);
  await scene.api.restart();
  assertEquals((await waiting).metadata?.uid, "u1");
  assert(performance.now() - startMs < 30_000);
}

/** A tunnel that was asked for. */
interface Tunnel {
  readonly port: number;
  /** Name and password, joined by `:`; undefined if missing. */
  readonly credentials: string | undefined;
}

/** A proxy, whose tunnels end with their connections. */
class TunnelProxy implements Disposable {
  /** Those that were asked for. */
  readonly tunnels: Tunnel[] = [];
  readonly #listener: Deno.TcpListener;

  /** Listens on 127.0.0.1. */
  constructor(protocol: "http" | "socks5") {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const open = protocol === "http" ? openByConnect : openBySocks;
    this.#serve(open);
  }

  /** Where it listens. */
  get port(): number {
    return this.#listener.addr.port;
  }

  async #serve(open: (conn: Deno.Conn) => Promise<Tunnel>): Promise<void> {
    for await (const conn of this.#listener) {
      open(conn).then(async (tunnel) => {
        this.tunnels.push(tunnel);
        await join(conn, tunnel.port);
      }).catch(() => closeQuietly(conn)); // The other side has gone.
    }
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // It is closed.
    }
  }
}

function closeQuietly(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch {
    // It is closed.
  }
}

async function join(near: Deno.Conn, port: number): Promise<void> {
  const far = await Deno.connect({ hostname: "127.0.0.1", port });
  await Promise.all([
    near.readable.pipeTo(far.writable),
    far.readable.pipeTo(near.writable),
  ]);
}

async function read(conn: Deno.Conn): Promise<Uint8Array> {
  const bytes = new Uint8Array(1024);
  return bytes.subarray(0, await conn.read(bytes) ?? 0);
}

/** Source: RFC 9110 section 9.3.6. A request is expected in one piece. */
async function openByConnect(conn: Deno.Conn): Promise<Tunnel> {
  const text = new TextDecoder().decode(await read(conn));
  const [, port] = /^CONNECT [^ ]+:(\d+) /.exec(text) ?? [];
  const [, basic] = /^proxy-authorization: basic (\S+)/im.exec(text) ?? [];
  await conn.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n"));
  return {
    port: Number(port),
    credentials: basic === undefined ? undefined : atob(basic),
  };
}

const SOCKS_VERSION = 5;
const NO_AUTHENTICATION = 0;
const BY_PASSWORD = 2;

/** Source: RFC 1928, RFC 1929. Each message is expected in one piece. */
async function openBySocks(conn: Deno.Conn): Promise<Tunnel> {
  const [, , ...methods] = await read(conn);
  const method = methods.includes(BY_PASSWORD)
    ? BY_PASSWORD
    : NO_AUTHENTICATION;
  await conn.write(Uint8Array.of(SOCKS_VERSION, method));
  const credentials = method === BY_PASSWORD
    ? await readPassword(conn)
    : undefined;
  const [high = 0, low = 0] = (await read(conn)).slice(-2);
  await conn.write(Uint8Array.of(SOCKS_VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  return { port: high * 256 + low, credentials };
}

async function readPassword(conn: Deno.Conn): Promise<string> {
  const [, length = 0, ...rest] = await read(conn);
  await conn.write(Uint8Array.of(1, 0));
  const text = String.fromCharCode(...rest);
  return `${text.slice(0, length)}:${text.slice(length + 1)}`;
}

// A request may use a connection that becomes idle while its own is opened.
for (const kind of ["token", "clientCert"] as const) {
  testTransport({ name: `fetch with ${kind}`, kind, leastConnections: 1 });
  testTransport({
    name: `Node in a resident process with ${kind}`,
    kind,
    isResident: true,
    leastConnections: 3,
  });
}

Deno.test("loadTransport() reaches the server through a proxy", async (t) => {
  await using scene = await KubeScene.start();
  const rows = [
    ["http", "", undefined],
    ["http", "us%40er:pa%3Ass@", "us@er:pa:ss"],
    ["socks5", "", undefined],
    ["socks5h", "user:pass@", "user:pass"],
  ] as const;
  await eachRow(t, rows, async ([scheme, userinfo, credentials]) => {
    using proxy = new TunnelProxy(scheme === "http" ? "http" : "socks5");
    const url = `${scheme}://${userinfo}127.0.0.1:${proxy.port}`;
    using client = await scene.open("token", { cluster: { "proxy-url": url } });
    const pod = await client.getPod("test", "p1");
    assertEquals(pod.metadata?.uid, "u1");
    assertEquals(proxy.tunnels, [{ port: scene.api.port, credentials }]);
  }, ([scheme, userinfo]) => `${scheme}://${userinfo}`);
  await t.step("that does not exist", async () => {
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

Deno.test("loadTransport() uses no TLS for http", async () => {
  await using scene = await KubeScene.start({ transport: "http" });
  using client = await scene.open("token");
  assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
});

/** Ports that `fetch` refuses. Source: Fetch Standard, "port blocking". */
const BLOCKED_PORTS = [10080, 6000, 6566, 6669, 4190, 5061, 2049, 1719];

/** Starts a server at the first of these ports that is free. */
async function startAtBlockedPort(
  transport: "https" | "http",
): Promise<KubeScene> {
  for (const port of BLOCKED_PORTS) {
    try {
      return await KubeScene.start({ transport, port });
    } catch (error) {
      if ((error as { code?: string }).code !== "EADDRINUSE") throw error;
    }
  }
  throw new Error(`All ports are in use: ${BLOCKED_PORTS}`);
}

testRows("loadTransport() reaches a server at any port", [
  ["https", false],
  ["https", true],
  ["http", false],
  ["http", true],
], async ([transport, isResident]: ["https" | "http", boolean]) => {
  await using scene = await startAtBlockedPort(transport);
  using client = await scene.open("token", {}, { isResident });
  for (const _ of [1, 2]) {
    assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
  }
}, ([transport, isResident]) => `${transport}, resident: ${isResident}`);

/** Reads the pod in a process with proxy variables in its environment. */
async function readPodAside(
  kubeconfig: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const url = new URL("./client.ts", import.meta.url).href;
  const script = `
    import { openKubeClient } from "${url}";
    const env = Deno.env.toObject();
    const client = await openKubeClient({ kubeconfig: "${kubeconfig}", env });
    const { metadata } = await client.getPod("test", "p1");
    console.log(metadata.uid);`;
  const command = await moduleCommand(script, {
    // Once a day, deno checks for a newer version, through the proxy.
    env: { ...env, DENO_NO_UPDATE_CHECK: "1" },
  });
  const { stdout, stderr } = await command.output();
  return new TextDecoder().decode(stdout.length > 0 ? stdout : stderr).trim();
}

testRows(
  "loadTransport() proxies other machines only",
  [
    ["https", "127.0.0.1", "HTTPS_PROXY", 0],
    ["https", "localhost", "https_proxy", 0],
    ["https", "localhost", "ALL_PROXY", 0],
    ["http", "127.0.0.1", "HTTP_PROXY", 0],
    ["https", "kube.localhost", "HTTPS_PROXY", 1],
  ] as const,
  async ([transport, host, variable, tunnels]) => {
    const serverNames = [host, "127.0.0.1"];
    await using scene = await KubeScene.start({
      transport,
      ...host === "kube.localhost" ? { serverNames } : {},
    });
    using proxy = new TunnelProxy("http");
    const { api, directory } = scene;
    const server = api.url.replace("127.0.0.1", host);
    const kubeconfig = api.writeKubeconfig(directory.path, "token", { server });
    const proxyUrl = `http://127.0.0.1:${proxy.port}`;
    const env = { [variable]: proxyUrl, NO_PROXY: "", no_proxy: "" };
    assertEquals(await readPodAside(kubeconfig, env), "u1");
    assertEquals(proxy.tunnels.length, tunnels);
  },
  ([, host, variable]) => `${variable}, for ${host}`,
);

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

/** A server with a self-signed certificate and a pod. */
class SelfSigned implements AsyncDisposable {
  readonly #directory = new PluginDirectory();
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
    const kubeconfig = this.#directory.addFile(
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
    this.#directory[Symbol.dispose]();
    await this.#server.shutdown();
  }
}

Deno.test("loadTransport() reaches a server that is its own authority", async () => {
  await using scene = new SelfSigned();
  using client = await scene.open();
  const getPod = (): Promise<unknown> => client.getPod("test", "p1");
  await Promise.all([getPod(), getPod(), getPod()]);
  await client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: "b" });
  assertEquals(scene.requests, ["GET", "GET", "GET", "PATCH"]);
});

Deno.test("loadTransport() trusts no other server that is its own authority", async (t) => {
  await using scene = new SelfSigned();
  await t.step("with an unknown certificate", async () => {
    using client = await scene.open({ "certificate-authority-data": "" });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assert(
      error.message.endsWith("signed by unknown authority"),
      error.message,
    );
    assertEquals(error.isUntrusted, true);
  });
  await t.step("with a different name", async () => {
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
      client.getPod("test", "p1", { overallMs: 3000 }),
    );
    assert(
      error.message.includes(": proxy-url cannot be combined"),
      error.message,
    );
  });
  assertEquals(scene.requests, []);
});

Deno.test("loadTransport() refuses an invalid certificate", async () => {
  await using scene = await KubeScene.start();
  const pem = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
  const cluster = { "certificate-authority-data": btoa(pem) };
  const error = await scene.open("token", { cluster }).catch((error) => error);
  assertEquals(error.code, 7);
});

Deno.test("fetch reaches IPv6 addresses and names", async (t) => {
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

Deno.test("fetch uses no connection that the server has closed", async (t) => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  const write = (value: string): Promise<void> =>
    client.setPodAnnotations({ namespace: "test", name: "p1" }, { a: value });
  await t.step("while the connection is idle", async () => {
    await Promise.all(["1", "2", "3"].map(write));
    await scene.api.restart();
    // A read is repeated if it finds the connection closed. A write is not.
    await client.getPod("test", "p1");
    await Promise.all(["4", "5", "6"].map(write));
    assertEquals(scene.api.connections, 6);
  });
  await t.step("with its last response", async () => {
    scene.api.fault({ headers: { connection: "close" }, times: 1 });
    await write("7");
    await Promise.all(["8", "9", "10"].map(write));
    assertEquals(scene.api.connections, 7);
  });
});

Deno.test("fetch reads long answers", async () => {
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

Deno.test("fetch ends a connection in the middle of an answer", async (t) => {
  await using scene = await KubeScene.start();
  using client = await scene.open();
  await t.step("when the loop ends", async () => {
    const path = "/api/v1/namespaces/test/pods";
    const events = client.watch<Pod>(path, { resourceVersion: "0" });
    assertEquals((await events.next()).done, false);
    await events.return();
    await eventually("the watch ends", () => scene.api.watchCount === 0);
  });
  await t.step("when the connection breaks", async () => {
    scene.api.fault({ drop: "mid-body", times: 1 });
    const times = { overallMs: 100 };
    const error = await kubeErrorOf(client.getPod("test", "p1", times));
    assert(error.message.endsWith(": unexpected EOF"), error.message);
  });
  await t.step("and opens another one", async () => {
    assertEquals((await client.getPod("test", "p1")).metadata?.uid, "u1");
  });
});

Deno.test("fetch reports a server that requires a certificate", async () => {
  await using scene = await KubeScene.start({ needsCertificate: true });
  using client = await scene.open("token");
  const error = await kubeErrorOf(client.getPod("test", "p1"));
  assertMatch(error.message, /: remote error: tls: certificate required$/);
  assertEquals([error.status, error.isUntrusted], [0, true]);
  using certified = await scene.open("clientCert");
  assertEquals((await certified.getPod("test", "p1")).metadata?.uid, "u1");
});

Deno.test("a resident process sends without delay", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open("token", {}, { isResident: true });
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
