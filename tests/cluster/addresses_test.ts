/**
 * Pods of two nodes that take addresses of one range at the same time, and pods
 * that want the address of one claim.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { until } from "../_harness/eventually.ts";
import { ptpNetwork } from "./cluster.ts";
import { clusterTest } from "./cluster_test_case.ts";
import {
  applyManifests,
  definition,
  listAllocations,
  prepareMultus,
} from "./multus.ts";
import {
  assertNoAddressTwice,
  pod,
  readTraces,
  removeAll,
  settle,
} from "./pods.ts";

const NETWORKS = "k8s.v1.cni.cncf.io/networks";
const STATUS = "k8s.v1.cni.cncf.io/network-status";

/** How many pods start on each node, and how many claims two pods want. */
const PODS = 20, CLAIMS = 6;

// deno-lint-ignore no-explicit-any -- as kubectl prints it
type Json = any;

/** Returns the address of a pod's second network; undefined before ADD has ended. */
function addressOf({ metadata }: Json): string | undefined {
  const status = metadata.annotations[STATUS] ?? "[]";
  return JSON.parse(status)[1]?.ips?.[0];
}

clusterTest("two nodes allocate addresses at the same time", {
  nodes: 2,
  network: ptpNetwork,
  prepare: prepareMultus,
}, async (cluster, step) => {
  const { api, nodes } = cluster;
  await applyManifests(cluster, true);
  // As --plugins of the DaemonSet: the daemon of multus runs plugins of its own
  // executable only, and looks after the claims of pods that it has attached.
  for (const node of nodes) {
    await node.get(`cd /opt/cni/bin
      for name in macvlan whereabouts; do ln -sf cni-multus $name; done`);
  }
  const account = "--serviceaccount=kube-system:multus";
  const grant = ["create", "clusterrolebinding", "multus-claims", account];
  api.kubectl(...grant, "--clusterrole=cni-whereabouts-claims");
  const ipam = { type: "whereabouts", range: "10.57.0.0/24" };
  const link = { type: "macvlan", master: "eth1" };
  api.apply(
    definition("wide", { ...link, ipam }),
    definition("kept", { ...link, ipam, allowPersistentIPs: true }),
  );
  const before = await Promise.all(nodes.map(readTraces));

  await step(`${2 * PODS} pods at the same time`, async () => {
    const annotations = { [NETWORKS]: "wide" };
    api.apply(
      ...nodes.flatMap(({ name: nodeName }) =>
        Array.from(
          { length: PODS },
          (_, at) => pod(`${nodeName}-${at}`, { nodeName, annotations }),
        )
      ),
    );
    await settle(cluster);
    const all: string[] = api.get("pods").items.map(addressOf);
    assertEquals(new Set(all).size, 2 * PODS, all.join(" "));
    assertEquals(listAllocations(cluster), 2 * PODS);
    await removeAll(cluster, before);
    assertEquals(listAllocations(cluster), 0);
  });

  const claims = Array.from({ length: CLAIMS }, (_, at) => `claim${at}`);
  /** Lists the pods of each claim that run. */
  const owners = (): Json[][] => {
    const { items } = api.get("pods");
    return claims.map((claim) =>
      items.filter(({ metadata, status }: Json) =>
        metadata.labels.app.startsWith(`${claim}-`) &&
        metadata.deletionTimestamp === undefined && status.podIP
      )
    );
  };
  await step("one of two pods gets the address of a claim", async () => {
    api.apply(...claims.map((name): JsonObject => ({
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name, namespace: "default" },
      spec: { network: "kept", interface: "net1" },
    })));
    api.apply(
      ...claims.flatMap((claim) =>
        nodes.map(({ name: nodeName }) =>
          pod(`${claim}-${nodeName}`, {
            nodeName,
            annotations: {
              [NETWORKS]: JSON.stringify([
                { name: "kept", "ipam-claim-reference": claim },
              ]),
            },
          })
        )
      ),
    );
    await until("each claim has a pod", async () => {
      await assertNoAddressTwice(cluster);
      return owners().every((pods) => pods.length === 1);
    }, () => JSON.stringify(owners().map((pods) => pods.length)));
    // The other pod is tried again and again.
    await until("the others have been refused", () => {
      const refused = api.get("events").items.filter(({ message }: Json) =>
        /IPAMClaim .* is in use by pod/.test(message)
      ).map(({ involvedObject }: Json) => involvedObject.name);
      return new Set(refused).size >= CLAIMS;
    });
    await assertNoAddressTwice(cluster);
    assertEquals(owners().map(({ length }) => length), claims.map(() => 1));
    assertEquals(listAllocations(cluster), CLAIMS);
  });

  await step("the other pod gets the address after the first pod", async () => {
    const first = owners().flat();
    const addresses = first.map(addressOf);
    const names = first.map(({ metadata }) => metadata.name);
    // Without a period of grace, the API server forgets pods that still run.
    api.kubectl("delete", "pod", "--grace-period=1", ...names);
    await until("each claim has its other pod", async () => {
      await assertNoAddressTwice(cluster);
      return owners().every(([pod]) =>
        pod !== undefined && !names.includes(pod.metadata.name)
      );
    });
    await settle(cluster);
    assertEquals(owners().flat().map(addressOf), addresses);
  });

  await step("nothing is left once the claims are deleted", async () => {
    api.kubectl("delete", "ipamclaims", "--all", "--wait=false");
    await removeAll(cluster, before);
    await until(
      "the node daemons have released the addresses",
      () => listAllocations(cluster) === 0,
    );
  });
});
