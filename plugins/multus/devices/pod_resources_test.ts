import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import {
  FakeKubelet,
  type FakeKubeletOptions,
  type KubeletFault,
} from "../testing/kubelet.ts";
import { type PodDevice, readPodResources } from "./pod_resources.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const POD = { namespace: "test", name: "p1" };
const NIC = "vendor.com/nic";
const DEVICES = {
  c1: { [NIC]: ["d2", "d1"] },
  c2: { "vendor.com/fpga": ["f"] },
};

/** A kubelet with the pod, and others with partly equal names. */
async function startKubelet(
  options: FakeKubeletOptions = {},
): Promise<FakeKubelet> {
  const kubelet = await FakeKubelet.start(options);
  kubelet.setPod("other", "p1", { c1: { [NIC]: ["other"] } });
  kubelet.setPod("test", "p1", DEVICES);
  kubelet.setPod("test", "p12", { c1: { [NIC]: ["p12"] } });
  return kubelet;
}

function read(
  { socketPath }: FakeKubelet,
  pod = POD,
  signal?: AbortSignal,
): Promise<PodDevice[]> {
  return readPodResources(socketPath, pod, signal);
}

function methodsOf({ calls }: FakeKubelet): string[] {
  return calls.map(({ method }) => method);
}

const EXPECTED = [
  { resourceName: NIC, deviceId: "d2" },
  { resourceName: NIC, deviceId: "d1" },
  { resourceName: "vendor.com/fpga", deviceId: "f" },
];

Deno.test("readPodResources() requests one pod, or all pods if that is refused", async (t) => {
  const rows: [get: "enabled" | "disabled" | "unimplemented", string[]][] = [
    ["enabled", ["Get"]],
    ["disabled", ["Get", "List"]],
    ["unimplemented", ["Get", "List"]],
  ];
  await eachRow(t, rows, async ([get, methods]) => {
    await using kubelet = await startKubelet({ get });
    assertEquals(await read(kubelet), EXPECTED);
    assertEquals(methodsOf(kubelet), methods);
    assertEquals(kubelet.connections, 1);
  }, ([get]) => `Get is ${get}`);
});

Deno.test("readPodResources() names the pod in errors", async () => {
  await using kubelet = await startKubelet();
  await read(kubelet);
  const [{ podName, podNamespace } = {}] = kubelet.calls;
  assertEquals([podNamespace, podName], ["test", "p1"]);
});

testRows(
  "readPodResources() returns nothing for an unknown pod",
  ["enabled", "disabled"] as const,
  async (get) => {
    await using kubelet = await startKubelet({ get });
    assertEquals(await read(kubelet, { namespace: "n", name: "p1" }), []);
  },
  (get) => `Get is ${get}`,
);

Deno.test("readPodResources() joins containers and repeated resources", async () => {
  await using kubelet = await FakeKubelet.start();
  kubelet.setPod("test", "p1", {
    c1: [[NIC, ["d3"]], [NIC, ["d1"]], [NIC, []]],
    c2: { [NIC]: ["d2"] },
    c3: {},
  });
  const devices = await read(kubelet);
  assertEquals(devices.map(({ deviceId }) => deviceId), ["d3", "d1", "d2"]);
});

Deno.test("readPodResources() reads what the kubelet's own library encodes", async () => {
  // k8s.io/kubelet 0.33: devices with their NUMA node, CPUs, memory, claims.
  const message = Uint8Array.fromHex(
    "0a690a0270311204746573741a5d0a02633112320a0e76656e646f722e636f6d2f6e6963" +
      "120c303030303a30333a30322e31120c303030303a30333a30322e301a040a02080" +
      "11a0301ac02220e0a066d656d6f72791080808080102a0e12016b1a047465737422" +
      "03120164",
  );
  await using kubelet = await startKubelet();
  kubelet.fault({ message });
  assertEquals(await read(kubelet), [
    { resourceName: NIC, deviceId: "0000:03:02.1" },
    { resourceName: NIC, deviceId: "0000:03:02.0" },
  ]);
});

Deno.test("readPodResources() retries when the kubelet is rate limited", async () => {
  await using kubelet = await startKubelet();
  kubelet.fault({
    grpcStatus: 8,
    grpcMessage: "rejected by rate limit",
    times: 3,
  });
  assertEquals(await read(kubelet), EXPECTED);
  assertEquals(methodsOf(kubelet), ["Get", "Get", "Get", "Get"]);
});

testRows("readPodResources() fails with a code", [
  [
    "the kubelet is busy",
    { grpcStatus: 14, grpcMessage: "starting" },
    11,
    "code = Unavailable desc = starting",
  ],
  ["the kubelet was too slow", { grpcStatus: 4 }, 11, "DeadlineExceeded"],
  ["the kubelet failed", { grpcStatus: 13 }, 5, "code = Internal"],
  ["the connection ends", { drop: "connection" }, 11, "truncated"],
  ["the stream is reset", { drop: "stream" }, 11, "truncated"],
  ["no gRPC", { httpStatus: 404 }, 5, "HTTP status 404"],
  [
    "no message of protocol buffers",
    { message: Uint8Array.of(0x0a, 9) },
    5,
    "premature EOF",
  ],
], async ([, fault, code, text]: [string, KubeletFault, number, string]) => {
  await using kubelet = await startKubelet();
  kubelet.fault(fault);
  const error = await assertRejects(() => read(kubelet), CniError);
  assertEquals(error.code, code);
  assertStringIncludes(error.message, kubelet.socketPath);
  assertStringIncludes(error.message, 'pod "test/p1"');
  assertStringIncludes(error.details, text);
});

Deno.test("readPodResources() fails at its time limit", async () => {
  await using kubelet = await startKubelet();
  kubelet.fault({ hang: true });
  const error = await assertRejects(
    () => read(kubelet, POD, AbortSignal.timeout(50)),
    CniError,
  );
  assertEquals(error.code, 11);
  assertEquals(error.details, "context deadline exceeded");
});

Deno.test("readPodResources() stops retrying a kubelet that is always rate limited", async () => {
  await using kubelet = await startKubelet();
  kubelet.fault({ grpcStatus: 8 });
  const error = await assertRejects(
    () => read(kubelet, POD, AbortSignal.timeout(200)),
    CniError,
  );
  assertEquals(error.code, 11);
});

Deno.test("readPodResources() reads a node full of pods", async () => {
  await using kubelet = await startKubelet({ get: "disabled" });
  const ids = Array.from({ length: 64 }, (_, index) => `0000:03:${index}.1`);
  for (let index = 0; index < 250; index++) {
    kubelet.setPod("load", `p${index}`, { c1: { [NIC]: ids } });
  }
  const pod = { namespace: "load", name: "p249" };
  const devices = await read(kubelet, pod);
  assertEquals(devices.map(({ deviceId }) => deviceId), ids);
});
