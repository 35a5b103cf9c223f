import { assert, assertEquals } from "@std/assert";
import type { NetworkAttachmentDefinition, Pod } from "../../../kube/types.ts";
import { cachedDefinition, cachedPod } from "./cached_objects.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const METADATA = {
  namespace: "ns",
  name: "one",
  uid: "u1",
  resourceVersion: "7",
  labels: { app: "web" },
  managedFields: [{ manager: "kubectl" }],
  ownerReferences: [],
};

/** The part of METADATA that is kept. */
const KEPT = { namespace: "ns", name: "one", uid: "u1", resourceVersion: "7" };

/** Builds a pod like the API server's, with more fields than the types have. */
function pod(keys: object): Pod {
  return { metadata: METADATA, ...keys } as unknown as Pod;
}

Deno.test("cachedPod() keeps annotations, and drops containers", () => {
  const annotations = { a: "b", [LAST_APPLIED]: "{}" };
  const cached = cachedPod(pod({
    metadata: { ...METADATA, annotations },
    spec: {
      nodeName: "node1",
      hostNetwork: true,
      containers: [{ env: [{ value: "secret" }] }],
    },
    status: { phase: "Pending", podIP: "10.1.0.2", hostIP: "192.0.2.1" },
  }));
  assertEquals(cached?.uids, ["u1"]);
  assertEquals(JSON.parse(cached?.text ?? ""), {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...KEPT, annotations: { a: "b" } },
    spec: { nodeName: "node1", hostNetwork: true },
    status: { phase: "Pending", podIP: "10.1.0.2" },
  });
});

Deno.test("cachedPod() keeps the claims of devices", () => {
  const claims = {
    resourceClaimStatuses: [{ name: "nic", resourceClaimName: "web-nic-1" }],
    extendedResourceClaimStatus: {
      resourceClaimName: "web-extended-1",
      requestMappings: [{ requestName: "r", resourceName: "vendor.com/nic" }],
    },
  };
  const cached = cachedPod(pod({
    spec: { resourceClaims: [{ name: "nic" }] },
    status: { conditions: [], ...claims },
  }));
  assertEquals(JSON.parse(cached?.text ?? "").status, claims);
});

Deno.test("cachedPod() accepts the kubelet's UID of a static pod", () => {
  const annotations = { "kubernetes.io/config.hash": "h1" };
  const metadata = { ...METADATA, annotations };
  assertEquals(cachedPod(pod({ metadata }))?.uids, ["u1", "h1"]);
});

testRows<[string, object]>("cachedPod() does not keep every pod", [
  ["one without a UID", { metadata: { name: "one" } }],
  ["one without anything", { metadata: undefined }],
], ([, keys]) => {
  assertEquals(cachedPod(pod(keys)), undefined);
});

Deno.test("cachedDefinition() keeps the configuration and annotations", () => {
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "intel.com/sriov" };
  const annotations = { ...resource, [LAST_APPLIED]: "{}" };
  const config = '{"type": "macvlan"}';
  const cached = cachedDefinition(
    {
      metadata: { ...METADATA, annotations },
      spec: { config },
    } as NetworkAttachmentDefinition,
  );
  assert(cached !== undefined);
  assertEquals(JSON.parse(cached.text), {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { ...KEPT, annotations: resource },
    spec: { config },
  });
});

Deno.test("cachedDefinition() is safe with deeply nested fields", () => {
  const deep = JSON.parse("[".repeat(200_000) + "]".repeat(200_000));
  const cached = cachedDefinition(
    {
      metadata: METADATA,
      spec: { config: "{}", other: deep },
    } as NetworkAttachmentDefinition,
  );
  assertEquals(JSON.parse(cached?.text ?? "").spec, { config: "{}" });
});
