import { assert, assertEquals } from "@std/assert";
import {
  FakeKubelet,
  type FakeKubeletOptions,
  type KubeletFault,
} from "./kubelet.ts";
import type { HeaderRecord } from "./http2_server.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const CLIENT = new URL("http2_client.mjs", import.meta.url).pathname;

/** How a call ended. */
interface Ending {
  readonly headers: HeaderRecord | undefined;
  readonly trailers: HeaderRecord | undefined;
  readonly body: readonly number[];
  readonly error: string | undefined;
  readonly resetBy: number | undefined;
  readonly tookMs: number;
}

/** A request of the client. */
interface ClientRequest {
  readonly headers: HeaderRecord;
  readonly body?: readonly number[];
  readonly cancel?: boolean;
}

const EMPTY = [0, 0, 0, 0, 0];

/** Get for pod `p` in namespace `n`. */
const GET_P = [0, 0, 0, 0, 6, 0x0a, 1, 0x70, 0x12, 1, 0x6e];

function headersOf(method: string): HeaderRecord {
  return {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "localhost",
    ":path": `/v1.PodResourcesLister/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
  };
}

/** Sends requests one after the other, and returns how the last one ended. */
async function send(
  { socketPath }: FakeKubelet,
  requests: readonly ClientRequest[],
  timeoutMs = 60_000,
): Promise<Ending> {
  const input = JSON.stringify({ socketPath, requests, timeoutMs });
  const { stdout } = await new Deno.Command("node", {
    args: [CLIENT, input],
    stderr: "inherit",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

/** Calls a method as a gRPC client would. */
async function call(
  kubelet: FakeKubelet,
  method: string,
  body: readonly number[] = EMPTY,
  timeoutMs?: number,
): Promise<Ending> {
  const request = { headers: headersOf(method), body };
  return await send(kubelet, [request], timeoutMs);
}

async function callWith(
  options: FakeKubeletOptions,
  fault: KubeletFault,
  method = "List",
  request = EMPTY,
  timeoutMs?: number,
): Promise<Ending> {
  await using kubelet = await FakeKubelet.start(options);
  kubelet.setPod("n", "p", { c: { r: ["d"] } });
  kubelet.fault(fault);
  return await call(kubelet, method, request, timeoutMs);
}

function text(bytes: readonly number[]): string {
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

Deno.test("FakeKubelet answers Get with the pod's devices", async () => {
  await using kubelet = await FakeKubelet.start();
  kubelet.setPod("n", "p", { c: [["r", ["d1", "d2"]], ["r", []]] });
  kubelet.setPod("n", "q", {});
  const { headers, body, trailers } = await call(kubelet, "Get", GET_P);
  assertEquals(Number(headers?.[":status"]), 200);
  assertEquals(headers?.["content-type"], "application/grpc");
  assertEquals(trailers?.["grpc-status"], "0");
  assertEquals(body.slice(0, 5), [0, 0, 0, 0, body.length - 5]);
  assertEquals(body.slice(5), [
    ...[0x0a, body.length - 7],
    ...[0x0a, 1, 0x70, 0x12, 1, 0x6e, 0x1a, body.length - 15],
    ...[0x0a, 1, 0x63],
    ...[0x12, 17, 0x0a, 1, 0x72, 0x12, 2, 0x64, 0x31, 0x12, 2, 0x64, 0x32],
    ...[0x1a, 4, 0x0a, 2, 0x08, 1],
    ...[0x12, 9, 0x0a, 1, 0x72, 0x1a, 4, 0x0a, 2, 0x08, 1],
    ...[0x1a, 3, 0, 0xac, 0x02],
    ...[0x22, 14, 0x0a, 6, ...new TextEncoder().encode("memory")],
    ...[0x10, 0x80, 0x80, 0x80, 0x80, 0x04],
    ...[
      0x2a,
      11,
      0x0a,
      6,
      ...new TextEncoder().encode("claim1"),
      0x12,
      1,
      0x63,
    ],
  ]);
});

Deno.test("FakeKubelet logs calls with their pod", async () => {
  await using kubelet = await FakeKubelet.start();
  await call(kubelet, "List");
  await call(kubelet, "Get", GET_P);
  assertEquals(
    kubelet.calls.map((call) => [
      call.method,
      call.podNamespace,
      call.podName,
      call.headers["te"],
    ]),
    [["List", "", "", "trailers"], ["Get", "n", "p", "trailers"]],
  );
  assertEquals(kubelet.connections, 2);
});

Deno.test("FakeKubelet does not log an aborted call", async () => {
  await using kubelet = await FakeKubelet.start();
  await send(kubelet, [
    { headers: headersOf("Get"), cancel: true },
    { headers: headersOf("List"), body: EMPTY },
  ]);
  assertEquals(kubelet.calls.map(({ method }) => method), ["List"]);
});

Deno.test("FakeKubelet lists all pods in a large response", async () => {
  await using kubelet = await FakeKubelet.start();
  const ids = Array.from({ length: 50 }, (_, index) => `0000:03:${index}.1`);
  for (let index = 0; index < 500; index++) {
    kubelet.setPod("n", `p${index}`, { c: { "vendor.com/nic": ids } });
  }
  const { body, trailers } = await call(kubelet, "List");
  assertEquals(trailers?.["grpc-status"], "0");
  const [, ...length] = body.slice(0, 5);
  const view = new DataView(Uint8Array.from(length).buffer);
  assertEquals(view.getUint32(0), body.length - 5);
  assert(body.length > 300_000, `${body.length}`);
  assert(text(body.slice(-1000)).includes("p499"));
});

Deno.test("FakeKubelet fails as kubelets do", async (t) => {
  const rows: [string, FakeKubeletOptions, string, string, string][] = [
    [
      "for a pod that it does not know",
      {},
      "Get",
      "2",
      "pod  in namespace  not found",
    ],
    [
      "for Get behind a feature gate",
      { get: "disabled" },
      "Get",
      "2",
      "PodResources API Get method disabled",
    ],
    [
      "for Get before there was one",
      { get: "unimplemented" },
      "Get",
      "12",
      "unknown method Get for service v1.PodResourcesLister",
    ],
  ];
  await eachRow(t, rows, async ([, options, method, status, message]) => {
    const { headers, trailers, body } = await callWith(options, {}, method);
    assertEquals(headers?.["grpc-status"], status);
    assertEquals(headers?.["grpc-message"], message);
    assertEquals(trailers, undefined);
    assertEquals(body, []);
  });
});

Deno.test("FakeKubelet.fault() makes calls fail", async (t) => {
  await t.step("with a status in trailers", async () => {
    const fault = { grpcStatus: 14, where: "trailers" } as const;
    const { headers, trailers } = await callWith({}, fault);
    assertEquals(headers?.["grpc-status"], undefined);
    assertEquals(trailers?.["grpc-status"], "14");
  });
  await t.step("with any text", async () => {
    const fault = { grpcStatus: 2, grpcMessage: "50% of \u00e9\n" };
    const { headers } = await callWith({}, fault);
    assertEquals(headers?.["grpc-message"], "50%25 of %C3%A9%0A");
  });
  await t.step("with an HTTP status", async () => {
    const { headers } = await callWith({}, { httpStatus: 503 });
    assertEquals(Number(headers?.[":status"]), 503);
  });
  await t.step("with another message", async () => {
    const { body } = await callWith({}, { message: Uint8Array.of(7, 8) });
    assertEquals(body, [0, 0, 0, 0, 2, 7, 8]);
  });
  await t.step("with another body", async () => {
    const { body } = await callWith({}, { body: Uint8Array.of(7, 8) });
    assertEquals(body, [7, 8]);
  });
  await t.step("without trailers", async () => {
    const { body, trailers } = await callWith({}, { withoutTrailers: true });
    assert(body.length > 5);
    assertEquals(trailers, undefined);
  });
  await t.step("by a reset halfway", async () => {
    const { body, resetBy } = await callWith({}, { drop: "stream" });
    const { body: whole } = await callWith({}, {});
    assertEquals(body, whole.slice(0, Math.ceil(whole.length / 2)));
    assertEquals(resetBy, 2);
  });
  await t.step("by a connection that ends halfway", async () => {
    const { trailers } = await callWith({}, { drop: "connection" });
    assertEquals(trailers, undefined);
  });
  await t.step("late, or never", async () => {
    const { tookMs } = await callWith({}, { delayMs: 50 });
    assert(tookMs >= 49, `${tookMs} ms`);
    const { headers, error } = await callWith(
      {},
      { hang: true },
      "List",
      EMPTY,
      50,
    );
    assertEquals([headers, error], [undefined, "timeout"]);
  });
  await t.step("a limited number of times, for one method", async () => {
    await using kubelet = await FakeKubelet.start();
    kubelet.fault({ method: "List", times: 1, grpcStatus: 14 });
    const statuses: unknown[] = [];
    for (const method of ["Get", "List", "List"]) {
      const { headers, trailers } = await call(kubelet, method);
      statuses.push((trailers ?? headers)?.["grpc-status"]);
    }
    assertEquals(statuses, ["2", "14", "0"]);
  });
});

Deno.test("FakeKubelet sends malformed frames", async () => {
  const { headers, error } = await callWith({ garbage: true }, {});
  assertEquals(headers, undefined);
  assert(error !== undefined && error !== "timeout", error);
});
