import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  FakeKubelet,
  type FakeKubeletOptions,
  type KubeletFault,
} from "../testing/kubelet.ts";
import { GrpcClient, GrpcError } from "./grpc.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const LIST = "/v1.PodResourcesLister/List";
const MIB = 2 ** 20;

function list(
  socketPath: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Uint8Array> {
  using client = new GrpcClient(socketPath);
  return client.call(LIST, new Uint8Array(), signal);
}

/** Calls a server that misbehaves. */
async function callFaulty(
  fault: KubeletFault,
  options: FakeKubeletOptions = {},
): Promise<Uint8Array> {
  await using kubelet = await FakeKubelet.start(options);
  kubelet.setPod("test", "p1", { c1: { "vendor.com/nic": ["d1"] } });
  kubelet.fault(fault);
  return await list(kubelet.socketPath);
}

Deno.test("GrpcClient.call() speaks gRPC over HTTP/2 on one connection", async () => {
  await using kubelet = await FakeKubelet.start();
  using client = new GrpcClient(kubelet.socketPath);
  const { signal } = new AbortController();
  for (let count = 0; count < 3; count++) {
    assertEquals(await client.call(LIST, new Uint8Array(), signal), empty());
  }
  assertEquals([kubelet.calls.length, kubelet.connections], [3, 1]);
  const { headers } = kubelet.calls[0] ?? {};
  const names = [":method", ":scheme", ":path", "content-type", "te"];
  assertEquals(names.map((name) => headers?.[name]), [
    "POST",
    "http",
    LIST,
    "application/grpc",
    "trailers",
  ]);
});

function empty(): Uint8Array<ArrayBuffer> {
  return new Uint8Array();
}

testRows("GrpcClient.call() throws the status of a response", [
  [
    "with its text, decoded",
    { grpcStatus: 8, grpcMessage: "rejected by rate limit: 100 % é" },
    "ResourceExhausted",
    "rpc error: code = ResourceExhausted desc = rejected by rate limit: 100 % é",
  ],
  ["without a text", { grpcStatus: 12 }, "Unimplemented", "desc = "],
  ["of no known code", { grpcStatus: 99 }, "Unknown", "code = Unknown"],
  [
    "in trailers, which nobody sees",
    { grpcStatus: 14, where: "trailers" },
    "Unknown",
    "there is no message",
  ],
  [
    "of HTTP, if the server is away",
    { httpStatus: 503 },
    "Unavailable",
    "status 503",
  ],
  [
    "of HTTP, if it is another one",
    { httpStatus: 404 },
    "Unknown",
    "status 404",
  ],
  [
    "of HTTP, if it is not gRPC",
    { httpStatus: 200 },
    "Unknown",
    'content-type ""',
  ],
], async ([, fault, status, text]: [string, KubeletFault, string, string]) => {
  const error = await assertRejects(() => callFaulty(fault), GrpcError);
  assertEquals(error.status, status);
  assertStringIncludes(error.message, text);
});

testRows<[string, number[], string]>("GrpcClient.call() refuses bad framing", [
  ["a message too many", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "5 bytes after"],
  ["a compressed message", [1, 0, 0, 0, 1, 9], "compressed"],
  ["a huge length", [0, 0xff, 0xff, 0xff, 0xff, 1], "of 4294967295 bytes"],
], async ([, body, text]) => {
  const fault = { body: Uint8Array.from(body) };
  const error = await assertRejects(() => callFaulty(fault), RangeError);
  assertStringIncludes(error.message, text);
});

Deno.test("GrpcClient.call() takes messages of up to 16 MiB", async () => {
  const largest = new Uint8Array(16 * MIB);
  assertEquals((await callFaulty({ message: largest })).length, 16 * MIB);
  const larger = new Uint8Array(16 * MIB + 1);
  const error = await assertRejects(
    () => callFaulty({ message: larger }),
    RangeError,
  );
  assertStringIncludes(error.message, "message of 16777");
});

testRows("GrpcClient.call() reports the cause of a missing response", [
  ["no socket", () => list("/nowhere/kubelet.sock"), "No such file"],
  ["no server", listWithoutServer, "Connection refused"],
  ["no HTTP/2", () => callFaulty({}, { garbage: true }), "frame"],
  [
    "a stream that is reset",
    () => callFaulty({ drop: "stream" }),
    "The answer is truncated",
  ],
  [
    "a connection that ends",
    () => callFaulty({ drop: "connection" }),
    "The answer is truncated",
  ],
  ["no length", () => callFaulty({ body: Uint8Array.of(0) }), "truncated"],
  [
    "part of a length",
    () => callFaulty({ body: Uint8Array.of(0, 0, 0, 0) }),
    "truncated",
  ],
], async ([, call, text]: [string, () => Promise<unknown>, string]) => {
  const error = await assertRejects(call, Error);
  assert(!(error instanceof GrpcError), `${error}`);
  assertStringIncludes(error.message, text);
  assert(!error.message.includes("http://"), error.message);
});

/** Calls the socket that a killed server left behind. */
async function listWithoutServer(): Promise<void> {
  const dir = await Deno.makeTempDir();
  const listener = Deno.listen({ transport: "unix", path: `${dir}/s` });
  // Under another name the listener cannot remove it.
  await Deno.rename(`${dir}/s`, `${dir}/left`);
  listener.close();
  await list(`${dir}/left`)
    .finally(() => Deno.remove(dir, { recursive: true }));
}

Deno.test("GrpcClient.call() aborts with its signal", async () => {
  await using kubelet = await FakeKubelet.start();
  kubelet.fault({ hang: true });
  const late = await assertRejects(
    () => list(kubelet.socketPath, AbortSignal.timeout(50)),
    Error,
  );
  assertEquals(late.message, "context deadline exceeded");
  const gone = await assertRejects(
    () => list(kubelet.socketPath, AbortSignal.abort()),
    Error,
  );
  assertEquals(gone.message, "context canceled");
});

Deno.test("GrpcClient ignores proxy settings", async (t) => {
  const rows: [variable: string, value: string][] = [
    ["NO_PROXY", "*"],
    ["NO_PROXY", "localhost,127.0.0.0/8,10.0.0.0/8,.svc,fd00::/8,0.0.0.0/0"],
    ["no_proxy", "*"],
    ["HTTP_PROXY", "http://127.0.0.1:9"],
    ["ALL_PROXY", "http://127.0.0.1:9"],
  ];
  await using kubelet = await FakeKubelet.start();
  await eachRow(t, rows, async ([variable, value]) => {
    const before = Deno.env.get(variable);
    Deno.env.set(variable, value);
    try {
      assertInstanceOf(await list(kubelet.socketPath), Uint8Array);
    } finally {
      if (before === undefined) Deno.env.delete(variable);
      else Deno.env.set(variable, before);
    }
  }, ([variable, value]) => `${variable}=${value}`);
});
