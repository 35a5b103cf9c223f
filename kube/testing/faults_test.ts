import { assert, assertEquals, assertRejects } from "@std/assert";
import { deadlineWhen } from "../../tests/_harness/eventually.ts";
import { Asker } from "./asker.ts";
import { type FaultRule, KubeApi, type KubeApiOptions } from "./kube_api.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const POD = "/api/v1/namespaces/n/pods/p";

const TRANSPORTS: Readonly<Record<string, KubeApiOptions>> = {
  HTTPS: {},
  "a unix socket": { transport: "unix" },
};

/** Runs a test for each transport, with a server that has pod `p` and a client. */
async function byAllTransports(
  t: Deno.TestContext,
  test: (api: KubeApi, asker: Asker) => Promise<void>,
): Promise<void> {
  await eachRow(t, Object.entries(TRANSPORTS), async ([, options]) => {
    await using api = await KubeApi.start(options);
    using asker = new Asker(api);
    api.putPod({ metadata: { namespace: "n", name: "p" } });
    await test(api, asker);
  });
}

/** Reports whether a request gets a response. */
async function isAnswered(
  asker: Asker,
  signal?: AbortSignal,
): Promise<boolean> {
  try {
    await asker.ask("GET", POD, signal === undefined ? {} : { signal });
    return true;
  } catch {
    return false;
  }
}

Deno.test("KubeApi.fault() sends a different response", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    const rules: [FaultRule, number, string][] = [
      [{ status: 500 }, 500, '"reason":"InternalError"'],
      [{ status: 429, retryAfter: 1 }, 429, '"reason":"TooManyRequests"'],
      [{ status: 502, body: "<html>" }, 502, "<html>"],
      [{ body: '{"kind":' }, 200, '{"kind":'],
    ];
    for (const [rule, code, expected] of rules) {
      const fault = api.fault(rule);
      const { status, text, headers } = await asker.ask("GET", POD);
      assertEquals(status, code);
      assert(text.includes(expected), text);
      assertEquals(headers.get("retry-after"), rule.retryAfter ? "1" : null);
      assertEquals(fault.hits, 1);
      fault.clear();
    }
    assertEquals((await asker.ask("GET", POD)).status, 200);
  });
});

Deno.test("KubeApi.fault() affects the named requests, a limited number of times", async () => {
  await using api = await KubeApi.start();
  using asker = new Asker(api);
  api.putPod({ metadata: { namespace: "n", name: "p" } });
  api.fault({ method: "PATCH", status: 500 });
  api.fault({ path: /\/pods\/p$/, times: 2, status: 503 });
  const last = api.fault({ status: 504 });
  const statuses: number[] = [];
  for (let count = 0; count < 3; count++) {
    statuses.push((await asker.ask("GET", POD)).status);
  }
  statuses.push((await asker.patch(POD, {})).status);
  assertEquals(statuses, [503, 503, 504, 500]);
  assertEquals(last.hits, 1);
  api.clearFaults();
  assertEquals((await asker.ask("GET", POD)).status, 200);
});

Deno.test("KubeApi.fault() drops the connection before a write", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    const fault = api.fault({ method: "PATCH", drop: "before" });
    await assertRejects(() =>
      asker.patch(POD, { metadata: { labels: { a: "b" } } })
    );
    assert(fault.hits > 0);
    assertEquals(api.pod("n", "p")?.metadata["labels"], undefined);
  });
});

Deno.test("KubeApi.fault() drops the connection after a write", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    api.fault({ method: "PATCH", drop: "after" });
    await assertRejects(() =>
      asker.patch(POD, { metadata: { labels: { a: "b" } } })
    );
    assertEquals(api.pod("n", "p")?.metadata["labels"], { a: "b" });
  });
});

Deno.test("KubeApi.fault() ends a response halfway", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    api.fault({ drop: "mid-body" });
    const response = await asker.fetch("GET", POD);
    assertEquals(response.status, 200);
    await assertRejects(() => response.text());
    api.clearFaults();
    assert(await isAnswered(asker));
  });
});

Deno.test("KubeApi.fault() lets clients wait", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    api.fault({ delayMs: 80, times: 1 });
    const before = performance.now();
    assert(await isAnswered(asker));
    assert(performance.now() - before >= 79);
    api.fault({ delayMs: 60_000 });
    const signal = deadlineWhen(() => api.requests.length === 2);
    assertEquals(await isAnswered(asker, signal), false);
    assertEquals(api.requests.at(-1)?.status, undefined);
  });
});

Deno.test("KubeApi can be unreachable for a while", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    const { url } = api;
    assert(await isAnswered(asker));
    await api.stop();
    assertEquals(await isAnswered(asker), false);
    await api.stop();
    await api.restart();
    assertEquals(api.url, url);
    assertEquals((await asker.ask("GET", POD)).json.metadata.name, "p");
  });
});

Deno.test("KubeApi.stop() aborts requests in flight", async (t) => {
  await byAllTransports(t, async (api, asker) => {
    api.fault({ delayMs: 60_000 });
    const answered = isAnswered(asker);
    while (api.requests.length === 0) {
      await new Promise((next) => setTimeout(next));
    }
    await api.stop();
    assertEquals(await answered, false);
  });
});

Deno.test("KubeApi.blackhole() accepts and never answers", async () => {
  await using api = await KubeApi.start();
  using asker = new Asker(api);
  await api.blackhole();
  using connection = await Deno.connect({ port: api.port });
  assertEquals(connection.remoteAddr.transport, "tcp");
  assertEquals(await isAnswered(asker, AbortSignal.timeout(50)), false);
  assertEquals(api.requests, []);
  await api.restart();
  assert(await isAnswered(asker));
});

testRows<[string, KubeApiOptions]>("KubeApi serves", [
  ["HTTP", { transport: "http" }],
  ["a unix socket", { transport: "unix" }],
  ["IPv6", { hostname: "::1" }],
], async ([, options]) => {
  await using api = await KubeApi.start(options);
  using asker = new Asker(api);
  api.putPod({ metadata: { namespace: "n", name: "p" } });
  assertEquals((await asker.ask("GET", POD)).json.metadata.name, "p");
  assertEquals(api.connections, 1);
});
