import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { Pod } from "../../../kube/types.ts";
import { allocated, claimOf, sliceOf } from "../testing/claims.ts";
import { FakeKubelet } from "../testing/kubelet.ts";
import {
  readResourceMap,
  ResourceMap,
  type ResourceMapSource,
} from "./resource_map.ts";

const NIC = "vendor.com/nic";

/** Takes all devices of a resource, and then once more. */
function takeAll(map: ResourceMap, resourceName = NIC): string[] {
  const ids: string[] = [];
  for (let id = map.take(resourceName); id; id = map.take(resourceName)) {
    ids.push(id);
  }
  return ids;
}

/** A node: its kubelet's files, and a cluster with one claim. */
class Node implements Disposable {
  readonly dir = Deno.makeTempDirSync({ prefix: "devices-" });
  readonly source: ResourceMapSource = {
    pod: {
      metadata: { namespace: "test", name: "p1", uid: "u1" },
      spec: { containers: [], nodeName: "node1" },
    },
    client: {
      getResourceClaim: (_, name) =>
        Promise.resolve(claimOf(name, [allocated("dev-1")])),
      listResourceSlices: ({ nodeName = "" }) =>
        Promise.resolve([
          sliceOf("s1", { "dev-1": { id: `b of ${nodeName}`, resource: NIC } }),
        ]),
    },
    kubeletSocket: `${this.dir}/kubelet.sock`,
    checkpointPath: `${this.dir}/checkpoint`,
    log: { warn: () => {} },
  };

  /** Writes a checkpoint in which the pod has devices. */
  note(...ids: string[]): void {
    const entry = { PodUID: "u1", ResourceName: NIC, DeviceIDs: { "0": ids } };
    const Data = { PodDeviceEntries: [entry] };
    Deno.writeTextFileSync(
      `${this.dir}/checkpoint`,
      JSON.stringify({ Data, Checksum: 1 }),
    );
  }

  read(
    more: Partial<ResourceMapSource> = {},
    pod: Pod = {},
  ): Promise<ResourceMap> {
    const source = { ...this.source, ...more };
    return readResourceMap({ ...source, pod: { ...source.pod, ...pod } });
  }

  async readClaim(more: Partial<ResourceMapSource> = {}): Promise<string[]> {
    const claim = { name: "r", resourceClaimName: "c1" };
    const status = { resourceClaimStatuses: [claim] };
    return takeAll(await this.read(more, { status }));
  }

  async startKubelet(...ids: string[]): Promise<FakeKubelet> {
    const socketPath = `${this.dir}/kubelet.sock`;
    const kubelet = await FakeKubelet.start({ socketPath });
    kubelet.setPod("test", "p1", { c1: { [NIC]: ids } });
    return kubelet;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dir, { recursive: true });
  }
}

async function assertFails(
  read: () => Promise<unknown>,
  code: number,
  text: string,
): Promise<void> {
  const error = await assertRejects(read, CniError);
  assertEquals(error.code, code, String(error));
  assertStringIncludes(String(error), text);
}

Deno.test("ResourceMap.take() returns each device once, in sorted order", () => {
  const map = new ResourceMap([
    { resourceName: NIC, deviceId: "0000:03:02.1" },
    { resourceName: "vendor.com/fpga", deviceId: "0000:01:00.0" },
    { resourceName: NIC, deviceId: "0000:03:10.0" },
    { resourceName: NIC, deviceId: "0000:03:02.0" },
  ]);
  assertEquals(map.take("vendor.com/none"), undefined);
  assertEquals(map.take(NIC), "0000:03:02.0");
  assertEquals(map.take("vendor.com/fpga"), "0000:01:00.0");
  assertEquals(map.take("vendor.com/fpga"), undefined);
  assertEquals(takeAll(map), ["0000:03:02.1", "0000:03:10.0"]);
  assertEquals(map.take(NIC), undefined);
});

Deno.test("ResourceMap.take() returns a device twice if it is listed twice", () => {
  // A device may be shared.
  const device = { resourceName: NIC, deviceId: "d" };
  assertEquals(takeAll(new ResourceMap([device, device])), ["d", "d"]);
});

Deno.test("readResourceMap() queries the kubelet, or reads its checkpoint if it has no socket", async (t) => {
  using node = new Node();
  node.note("noted");
  await t.step("the kubelet's checkpoint", async () => {
    assertEquals(takeAll(await node.read()), ["noted"]);
  });
  await t.step("the kubelet", async () => {
    await using _kubelet = await node.startKubelet("c", "a");
    assertEquals(takeAll(await node.read()), ["a", "c"]);
  });
  await t.step("the kubelet, and nothing else if it fails", async () => {
    await using kubelet = await node.startKubelet();
    kubelet.fault({ grpcStatus: 14 });
    await assertFails(() => node.read(), 11, "Cannot query the kubelet at");
  });
  await t.step("neither a socket nor a checkpoint", async () => {
    const checkpointPath = `${node.dir}/none`;
    const text = `error reading file ${checkpointPath}`;
    await assertFails(() => node.read({ checkpointPath }), 5, text);
  });
});

Deno.test("readResourceMap() adds the pod's claimed devices", async () => {
  using node = new Node();
  node.note("c", "a");
  assertEquals(await node.readClaim(), ["a", "b of node1", "c"]);
  const nodeName = "node2";
  assertEquals(await node.readClaim({ nodeName }), ["a", "b of node2", "c"]);
});

Deno.test("readResourceMap() sends the API no request for a pod without claims", async () => {
  using node = new Node();
  node.note("a");
  const client = {
    getResourceClaim: (): Promise<never> => Promise.reject("asked"),
    listResourceSlices: (): Promise<never> => Promise.reject("asked"),
  };
  for (const status of [{}, { resourceClaimStatuses: [] }]) {
    assertEquals(takeAll(await node.read({ client }, { status })), ["a"]);
  }
});

Deno.test("readResourceMap() requires the pod's names and UID", async (t) => {
  using node = new Node();
  node.note("a");
  await t.step("the UID, for the checkpoint", async () => {
    const metadata = { namespace: "test", name: "p1", uid: "" };
    await assertFails(() => node.read({}, { metadata }), 7, "without a UID");
  });
  await using _kubelet = await node.startKubelet("a");
  for (const metadata of [{ name: "p1" }, { namespace: "test", name: "" }]) {
    await t.step(`more than ${JSON.stringify(metadata)}`, async () => {
      const text = "Pod name or namespace cannot be empty";
      await assertFails(() => node.read({}, { metadata }), 7, text);
    });
  }
});
