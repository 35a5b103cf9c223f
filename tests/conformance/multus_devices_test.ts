/**
 * The devices of pods: the rows of the list that are about them, by their
 * numbers.
 */

import {
  assert,
  assertEquals,
  assertExists,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError } from "../../base/error.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import { type KubeClient, openKubeClient } from "../../kube/client.ts";
import type { Pod, ResourceClaim, ResourceSlice } from "../../kube/types.ts";
import type { ClaimStatus } from "../../kube/types.ts";
import {
  readResourceMap,
  type ResourceMap,
} from "../../plugins/multus/devices/resource_map.ts";
import { multusSchema } from "../../plugins/multus/model/config.ts";
import type { Delegate } from "../../plugins/multus/model/delegate.ts";
import {
  NETWORKS,
  resolveNetworks,
} from "../../plugins/multus/select/select.ts";
import {
  allocated,
  claimOf,
  DRIVER,
  type Put,
  sliceOf,
} from "../../plugins/multus/testing/claims.ts";
import {
  FakeKubelet,
  type FakeKubeletOptions,
} from "../../plugins/multus/testing/kubelet.ts";
import { conformance } from "../_harness/conformance.ts";
import { KubeApi } from "../../kube/testing/kube_api.ts";
import { eachRow } from "../_harness/table.ts";

/** The node `node1`, with an API server and what its kubelet leaves on disk. */
class DeviceNode implements AsyncDisposable {
  readonly api: KubeApi;
  readonly client: KubeClient;
  /** The warnings so far. */
  readonly warnings: string[] = [];
  readonly #dir: string;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    api: KubeApi,
    client: KubeClient,
    dir: string,
    stack: AsyncDisposableStack,
  ) {
    this.api = api;
    this.client = client;
    this.#dir = dir;
    this.#stack = stack;
  }

  /** Starts a node with a kubelet without devices. */
  static async start(): Promise<DeviceNode> {
    await using stack = new AsyncDisposableStack();
    const api = stack.use(await KubeApi.start());
    const dir = await Deno.makeTempDir({ prefix: "device-node-" });
    stack.defer(() => Deno.remove(dir, { recursive: true }));
    const kubeconfig = api.writeKubeconfig(dir, "token");
    const client = await openKubeClient({ kubeconfig, env: {} });
    assertExists(client);
    stack.use(client);
    const node = new DeviceNode(api, client, dir, stack.move());
    await node.note("nobody", []);
    return node;
  }

  /** Path of the kubelet's socket, which exists once it has started. */
  get kubeletSocket(): string {
    return `${this.#dir}/kubelet.sock`;
  }

  /** Path of the kubelet's checkpoint. */
  get checkpointPath(): string {
    return `${this.#dir}/kubelet_internal_checkpoint`;
  }

  /** Starts the kubelet's service. */
  async startKubelet(options: FakeKubeletOptions = {}): Promise<FakeKubelet> {
    const { kubeletSocket: socketPath } = this;
    return await FakeKubelet.start({ socketPath, ...options });
  }

  /** Writes a checkpoint in which one pod has devices. */
  async note(uid: string, ids: string[], resource = "a/b"): Promise<void> {
    const PodDeviceEntries = [{
      PodUID: uid,
      ContainerName: "c1",
      ResourceName: resource,
      DeviceIDs: { "0": ids },
      AllocResp: "",
    }];
    const Data = { PodDeviceEntries, RegisteredDevices: {} };
    const text = JSON.stringify({ Data, Checksum: 1 });
    await Deno.writeTextFile(this.checkpointPath, text);
  }

  /** Puts objects into the cluster. */
  put(claims: Put<ResourceClaim>[], slices: Put<ResourceSlice>[] = []): void {
    for (const claim of claims) this.api.putClaim({ ...claim });
    for (const slice of slices) this.api.putSlice({ ...slice });
  }

  /** Adds a pod to the node, and returns it as the API server stores it. */
  async pod(
    status: ClaimStatus = {},
    metadata: { readonly namespace?: string; readonly name?: string } = {},
  ): Promise<Pod> {
    const { namespace = "test", name = "p1" } = metadata;
    const uid = `uid-of-${namespace}-${name}`;
    this.api.putPod({
      metadata: { namespace, name, uid },
      spec: { nodeName: "node1", containers: [] },
      status,
    });
    const pod = await this.client.getPod(namespace, name);
    this.api.clearRequests();
    return pod;
  }

  /** Reads the devices of a pod as multus does. */
  read(pod: Pod, signal?: AbortSignal): Promise<ResourceMap> {
    return readResourceMap({
      pod,
      client: this.client,
      kubeletSocket: this.kubeletSocket,
      checkpointPath: this.checkpointPath,
      log: { warn: (message) => this.warnings.push(message) },
      signal,
    });
  }

  /** Stops the API server, and removes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Takes all devices of a resource. */
function takeAll(map: ResourceMap, resourceName: string): string[] {
  const ids: string[] = [];
  for (;;) {
    const id = map.take(resourceName);
    if (id === undefined) return ids;
    ids.push(id);
  }
}

const NIC = "vendor.com/nic";
const FPGA = "vendor.com/fpga";
const ONE = { id: "0000:03:02.1", resource: NIC };
const TWO = { id: "0000:03:02.2", resource: NIC };
const GPU = { driver: "gpu.example.com", pool: "gpus" };

/** The status of a pod with claims that were made for it. */
function claims(...names: string[]): ClaimStatus {
  return {
    resourceClaimStatuses: names.map((name) => ({
      name: `ref-of-${name}`,
      resourceClaimName: name,
    })),
  };
}

/** The status of a pod for whose extended resources a claim stands. */
function extended(claim: string, ...mappings: string[][]): ClaimStatus {
  const requestMappings = mappings.map((
    [requestName = "", resourceName = ""],
  ) => ({ containerName: "c", requestName, resourceName }));
  return {
    extendedResourceClaimStatus: { resourceClaimName: claim, requestMappings },
  };
}

async function assertFails(
  run: () => Promise<unknown>,
  code: number,
  ...texts: string[]
): Promise<void> {
  const error = await assertRejects(run, CniError);
  for (const text of texts) assertStringIncludes(String(error), text);
  assertEquals(error.code, code, String(error));
}

/** Puts networks that need a device each. */
function putNetworks(node: DeviceNode, ...names: string[]): void {
  for (const name of names) {
    const config = { cniVersion: "1.0.0", type: "sriov" };
    const annotations = { "k8s.v1.cni.cncf.io/resourceName": NIC };
    node.api.putNad("test", name, config, annotations);
    node.api.putNad("kube-system", name, config, annotations);
  }
}

/** Resolves the networks of a pod, which share one map of devices. */
async function resolve(
  node: DeviceNode,
  pod: Pod,
  annotations: Readonly<Record<string, string>>,
  keys: JsonObject = { delegates: [{ type: "bridge", name: "b" }] },
): Promise<Delegate[]> {
  let map: Promise<ResourceMap> | undefined;
  const config = { name: "multus", type: "multus", ...keys };
  return await resolveNetworks({
    config: decode(multusSchema(), config, "configuration"),
    cniVersion: "1.0.0",
    podNamespace: "test",
    annotations,
    client: node.client,
    async takeDevice(resourceName): Promise<string | undefined> {
      map ??= node.read(pod);
      return (await map).take(resourceName);
    },
    log: { warn: () => {} },
  });
}

/** Lists what the plugins of networks are told of their devices. */
function devicesOf(delegates: readonly Delegate[]): unknown[] {
  return delegates.map(({ conf, resourceName, deviceId }) => {
    const config = JSON.parse(new TextDecoder().decode(conf.bytes));
    assertEquals([config.deviceID, config.pciBusID], [deviceId, deviceId]);
    assertEquals(resourceName, deviceId && NIC);
    return deviceId;
  });
}

/** Reads all of a resource that a pod has. */
async function idsOf(
  node: DeviceNode,
  status: ClaimStatus,
  resourceName = NIC,
): Promise<string[]> {
  return takeAll(await node.read(await node.pod(status)), resourceName);
}

function sliceRequests(node: DeviceNode): string[] {
  return node.api.requestsOf("GET", /resourceslices/)
    .map(({ path }) =>
      new URL(path, node.api.url).searchParams.get("fieldSelector") ?? ""
    );
}

function claimRequests(node: DeviceNode): string[] {
  return node.api.requestsOf("GET", /resourceclaims/).map(({ path }) => path);
}

conformance("multus devices", {
  "56 a network with a resource needs the kubelet": async () => {
    await using node = await DeviceNode.start();
    await Deno.remove(node.checkpointPath);
    putNetworks(node, "net1");
    const pod = await node.pod();
    await assertFails(
      () => resolve(node, pod, { [NETWORKS]: "net1" }),
      5,
      "error reading file",
    );
  },
  "59 networks have the devices of claims": async () => {
    await using node = await DeviceNode.start();
    node.put([claimOf("c1", [allocated("d1")])], [sliceOf("s", { d1: ONE })]);
    putNetworks(node, "net1");
    const pod = await node.pod(claims("c1"));
    const delegates = await resolve(node, pod, { [NETWORKS]: "net1" });
    assertEquals(devicesOf(delegates), [undefined, ONE.id]);
  },
  "59 master, default and pod networks share one map": async () => {
    await using node = await DeviceNode.start();
    await using kubelet = await node.startKubelet();
    const ids = ["d4", "d2", "d1", "d3"];
    kubelet.setPod("test", "p1", { c1: { [NIC]: ids } });
    putNetworks(node, "net1", "net2");
    const delegates = await resolve(
      node,
      await node.pod(),
      {
        "v1.multus-cni.io/default-network": "net1",
        [NETWORKS]: "net1,net2,net1",
      },
      { clusterNetwork: "net1", defaultNetworks: ["net2"] },
    );
    assertEquals(devicesOf(delegates), ["d1", "d2", "d3", "d4", undefined]);
    assertEquals(kubelet.calls.length, 1);
  },
  "59 a pod without claims needs no API": async () => {
    await using node = await DeviceNode.start();
    assertEquals(await idsOf(node, {}), []);
    assertEquals(node.api.requests, []);
  },
  "59 a failure of the API is an error": async () => {
    await using node = await DeviceNode.start();
    putNetworks(node, "net1");
    const pod = await node.pod(claims("c1"));
    node.api.fault({ path: /resourceclaims/, status: 422 });
    await assertFails(
      () => resolve(node, pod, { [NETWORKS]: "net1" }),
      7,
      'Cannot read resource claim "test/c1"',
    );
  },
  "59 devices of the kubelet and of claims are merged": async () => {
    await using node = await DeviceNode.start();
    await using kubelet = await node.startKubelet();
    kubelet.setPod("test", "p1", { c1: { [NIC]: ["0000:03:02.9"] } });
    node.put([claimOf("c1", [allocated("d1")])], [sliceOf("s", { d1: ONE })]);
    assertEquals(await idsOf(node, claims("c1")), [ONE.id, "0000:03:02.9"]);
  },
  "59 a claim of a GPU is left out": async () => {
    await using node = await DeviceNode.start();
    await using kubelet = await node.startKubelet();
    kubelet.setPod("test", "p1", { c1: { [NIC]: [TWO.id] } });
    node.put(
      [claimOf("c1", [allocated("gpu", GPU)])],
      [sliceOf("s", { gpu: {} }, GPU)],
    );
    assertEquals(await idsOf(node, claims("c1")), [TWO.id]);
    assertEquals(node.warnings, ["Skipped a device of a resource claim"]);
  },
  "61 no claims make an empty map": async () => {
    await using node = await DeviceNode.start();
    assertEquals(await idsOf(node, { resourceClaimStatuses: [] }), []);
    assertEquals(node.api.requests, []);
  },
  "62 one device makes one entry": async () => {
    await using node = await DeviceNode.start();
    node.put([claimOf("c1", [allocated("d1")])], [sliceOf("s", { d1: ONE })]);
    assertEquals(await idsOf(node, claims("c1")), [ONE.id]);
  },
  "63 slices of other nodes are not asked for": async () => {
    await using node = await DeviceNode.start();
    const other = { nodeName: "node2" };
    node.put([claimOf("c1", [allocated("d1")])], [
      sliceOf("a", { d1: TWO }, other),
      sliceOf("b", { d1: ONE }),
      sliceOf("c", { d1: TWO }, other),
    ]);
    assertEquals(await idsOf(node, claims("c1")), [ONE.id]);
    const selector = `spec.nodeName=node1,spec.driver=${DRIVER}`;
    assertEquals(sliceRequests(node), [selector]);
  },
  "64 several devices of a resource are sorted": async () => {
    await using node = await DeviceNode.start();
    const results = [allocated("d2"), allocated("d1")];
    node.put([claimOf("c1", results)], [sliceOf("s", { d1: ONE, d2: TWO })]);
    assertEquals(await idsOf(node, claims("c1")), [ONE.id, TWO.id]);
  },
  "65 resources are kept apart": async () => {
    await using node = await DeviceNode.start();
    const results = [allocated("d1"), allocated("d2")];
    const fpga = { id: "0000:04:00.0", resource: FPGA };
    node.put([claimOf("c1", results)], [sliceOf("s", { d1: ONE, d2: fpga })]);
    const map = await node.read(await node.pod(claims("c1")));
    assertEquals(takeAll(map, NIC), [ONE.id]);
    assertEquals(takeAll(map, FPGA), [fpga.id]);
  },
  "66 an extended resource may have several devices": async () => {
    await using node = await DeviceNode.start();
    const fpga = { id: "0000:04:00.0", resource: FPGA };
    node.put([
      claimOf("ext", [
        allocated("d1", { request: "container-0-request-0" }),
        allocated("d2", { request: "container-0-request-0" }),
        allocated("d3", { request: "container-0-request-1" }),
      ]),
    ], [sliceOf("s", { d1: ONE, d2: TWO, d3: fpga })]);
    const status = extended(
      "ext",
      ["container-0-request-0", NIC],
      ["container-0-request-1", FPGA],
    );
    const map = await node.read(await node.pod(status));
    assertEquals(takeAll(map, NIC), [ONE.id, TWO.id]);
    assertEquals(takeAll(map, FPGA), [fpga.id]);
  },
  "66 an extended resource of another name is an error": async () => {
    await using node = await DeviceNode.start();
    node.put([claimOf("ext", [allocated("d1")])], [sliceOf("s", { d1: ONE })]);
    await assertFails(
      () => idsOf(node, extended("ext", ["req-0", FPGA])),
      7,
      "k8s.cni.cncf.io/resourceName",
      FPGA,
    );
  },
  "66 an extended resource without devices is an error": async () => {
    await using node = await DeviceNode.start();
    node.put([claimOf("ext", [allocated("d1")])]);
    await assertFails(
      () => idsOf(node, extended("ext", ["req-1", NIC])),
      7,
      "request req-1 not found in claim ext",
    );
  },
  "67 a missing claim is an error": async () => {
    await using node = await DeviceNode.start();
    await assertFails(() => idsOf(node, claims("c1")), 7, "not found");
  },
  "67 a claim that was given nothing is an error": async () => {
    await using node = await DeviceNode.start();
    node.put([claimOf("c1")]);
    await assertFails(
      () => idsOf(node, claims("c1")),
      11,
      "claim c1 has no device allocation",
    );
  },
  "68 devices without a description are left out, the kubelet's stay": async (
    t,
  ) => {
    const id = "0000:05:00.0";
    const rows: [name: string, slice: Parameters<typeof sliceOf>[1]][] = [
      ["no slice", {}],
      ["no deviceID", { lost: { resource: NIC } }],
      ["no resourceName", { lost: { id } }],
      ["another device", { other: { id, resource: NIC } }],
    ];
    await eachRow(t, rows, async ([, devices]) => {
      await using node = await DeviceNode.start();
      await node.note("uid-of-test-p1", ["0000:03:02.9"], NIC);
      node.put([
        claimOf("c1", [allocated("lost", GPU), allocated("d1")]),
        claimOf("c2", [allocated("lost", GPU)]),
      ], [sliceOf("gpus", devices, GPU), sliceOf("s", { d1: ONE })]);
      const ids = await idsOf(node, claims("c1", "c2"));
      assertEquals(ids, [ONE.id, "0000:03:02.9"]);
      assertEquals(node.warnings.length, 2);
    });
  },
  "69 a claim and a driver are asked for once": async () => {
    await using node = await DeviceNode.start();
    const gpu = allocated("gpu", { request: "gpu", ...GPU });
    const results = [allocated("d1"), allocated("d2"), gpu];
    node.put([claimOf("c1", results)], [sliceOf("s", { d1: ONE, d2: TWO })]);
    const status = { ...claims("c1", "c1"), ...extended("c1", ["req-0", NIC]) };
    assertEquals([...new Set(await idsOf(node, status))], [ONE.id, TWO.id]);
    assertEquals(claimRequests(node).length, 1);
    assertEquals(sliceRequests(node).toSorted(), [
      `spec.nodeName=node1,spec.driver=${GPU.driver}`,
      `spec.nodeName=node1,spec.driver=${DRIVER}`,
    ]);
  },
  "69 claims of one name in two namespaces are two": async () => {
    await using node = await DeviceNode.start();
    node.put([
      claimOf("c1", [allocated("d1")]),
      claimOf("c1", [allocated("d2")], "other"),
    ], [sliceOf("s", { d1: ONE, d2: TWO })]);
    assertEquals(await idsOf(node, claims("c1")), [ONE.id]);
    const pod = await node.pod(claims("c1"), { namespace: "other" });
    assertEquals(takeAll(await node.read(pod), NIC), [TWO.id]);
  },
  "70 several claims add up, of several slices, of both kinds": async () => {
    await using node = await DeviceNode.start();
    await node.note("uid-of-test-p1", ["0000:03:02.9"], NIC);
    const three = { id: "0000:03:02.3", resource: NIC };
    node.put([
      claimOf("c1", [allocated("d1")]),
      claimOf("c2", [allocated("d2")]),
      claimOf("ext", [allocated("d3")]),
    ], [
      sliceOf("s1", { d1: ONE }),
      sliceOf("s2", { d2: TWO }),
      sliceOf("s3", { d3: three }),
    ]);
    const status = {
      ...claims("c1", "c2"),
      ...extended("ext", ["req-0", NIC]),
    };
    const ids = [ONE.id, TWO.id, three.id, "0000:03:02.9"];
    assertEquals(await idsOf(node, status), ids);
  },
  "71 the kubelet's devices of the pod are sorted": async (t) => {
    for (const get of ["enabled", "disabled", "unimplemented"] as const) {
      await t.step(`Get is ${get}`, async () => {
        await using node = await DeviceNode.start();
        await using kubelet = await node.startKubelet({ get });
        kubelet.setPod("other", "p1", { c1: { [NIC]: ["d0"] } });
        kubelet.setPod("test", "p1", {
          c1: { [NIC]: ["d3", "d1"] },
          c2: { [NIC]: ["d2"], [FPGA]: ["f"] },
        });
        assertEquals(await idsOf(node, {}), ["d1", "d2", "d3"]);
      });
    }
  },
  "71 a pod that the kubelet does not know has no devices": async () => {
    await using node = await DeviceNode.start();
    await using kubelet = await node.startKubelet();
    kubelet.setPod("other", "p1", { c1: { [NIC]: ["d0"] } });
    assertEquals(await idsOf(node, {}), []);
  },
  "71 a pod without name or namespace is an error": async (t) => {
    await using node = await DeviceNode.start();
    await using _kubelet = await node.startKubelet();
    for (const metadata of [{ name: "p1" }, { namespace: "test" }, {}]) {
      await t.step(JSON.stringify(metadata), async () => {
        await assertFails(
          () => node.read({ metadata }),
          7,
          "Pod name or namespace cannot be empty",
        );
      });
    }
  },
  "71 garbage on the socket is an error with checkpoint": async () => {
    await using node = await DeviceNode.start();
    await using _kubelet = await node.startKubelet({ garbage: true });
    await assertFails(() => idsOf(node, {}), 11, "Cannot query the kubelet");
  },
  "71 without the socket the checkpoint is read": async () => {
    await using node = await DeviceNode.start();
    await Deno.remove(node.checkpointPath);
    await assertFails(() => idsOf(node, {}), 5, "error reading file");
  },
  "72 the checkpoint's devices are sorted": async () => {
    await using node = await DeviceNode.start();
    await node.note("uid-of-test-p1", ["d2", "d1"], NIC);
    assertEquals(await idsOf(node, {}), ["d1", "d2"]);
  },
  "72 a checkpoint that is not JSON is an error": async () => {
    await using node = await DeviceNode.start();
    await Deno.writeTextFile(node.checkpointPath, "invalid");
    await assertFails(() => idsOf(node, {}), 6, node.checkpointPath);
  },
  "72 a pod without UID is an error": async () => {
    await using node = await DeviceNode.start();
    const metadata = { namespace: "test", name: "p1", uid: "" };
    const error = await assertRejects(
      () => node.read({ metadata }),
      CniError,
    );
    assert(error.code === 7, String(error));
  },
});
