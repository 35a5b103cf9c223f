/**
 * A cluster node with pods that have devices.
 *
 * @module
 */

import { assertExists } from "@std/assert";
import { type KubeClient, openKubeClient } from "../../kube/client.ts";
import type { Pod, ResourceClaim, ResourceSlice } from "../../kube/types.ts";
import {
  readResourceMap,
  type ResourceMap,
} from "../../plugins/multus/devices/resource_map.ts";
import type { ClaimStatus } from "../../plugins/multus/devices/resource_claims.ts";
import type { Put } from "./claims.ts";
import { KubeApi } from "./kube_api.ts";
import { FakeKubelet, type FakeKubeletOptions } from "./kubelet.ts";

/** The node `node1`, with an API server and what its kubelet leaves on disk. */
export class DeviceNode implements AsyncDisposable {
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
export function takeAll(map: ResourceMap, resourceName: string): string[] {
  const ids: string[] = [];
  for (;;) {
    const id = map.take(resourceName);
    if (id === undefined) return ids;
    ids.push(id);
  }
}
