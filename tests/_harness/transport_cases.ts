/**
 * Tests of every transport to an API server.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { KubeApiOptions } from "./kube_api.ts";
import type { KubeconfigKind } from "./kube_api/kubeconfig.ts";
import { kubeErrorOf, KubeScene } from "./kube_scene.ts";

/** A transport. */
export interface TransportCase {
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
export function testTransport(transport: TransportCase): void {
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

/** Node in Deno does not tell an expired certificate from an unknown one. */
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
