/**
 * Two nodes: multus by its daemon, and addresses of whereabouts on a network
 * that both are on. One of them is cut off, comes back, and loses its power.
 */

import { assertEquals } from "@std/assert";
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
  readTraces,
  removeAll,
  settle,
  workload,
} from "./pods.ts";
import { until } from "../_harness/eventually.ts";

clusterTest("two nodes with multus and whereabouts", {
  nodes: 2,
  network: ptpNetwork,
  prepare: prepareMultus,
}, async (cluster, step) => {
  const { api, nodes } = cluster;
  const [first, second] = nodes;
  if (first === undefined || second === undefined) throw new Error("two nodes");
  const podsOf = (name: string): number =>
    api.get("pods", `--field-selector=spec.nodeName=${name}`).items.length;

  await step(
    "the manifests install multus",
    () => applyManifests(cluster, true),
  );
  api.apply(definition("wide", {
    type: "macvlan",
    master: "eth1",
    ipam: { type: "whereabouts", range: "10.57.0.0/24" },
  }));
  const before = await Promise.all(nodes.map(readTraces));

  await step(
    "pods of both nodes reach each other in both networks",
    async () => {
      const annotations = { "k8s.v1.cni.cncf.io/networks": "wide" };
      api.apply(workload("Deployment", "many", 6, { annotations }));
      await settle(cluster);
      assertEquals(nodes.map(({ name }) => podsOf(name) > 0), [true, true]);
      assertEquals(listAllocations(cluster), 6);
    },
  );

  await step("a node is cut off, and its pods are replaced", async () => {
    cluster.setConnected(second, false);
    api.kubectl("cordon", second.name);
    const args = [`--field-selector=spec.nodeName=${second.name}`];
    api.kubectl("delete", "pod", "--force", "--grace-period=0", ...args);
    await until("the other node has them", () => podsOf(first.name) === 6);
    await settle(cluster, [first]);
    // Nobody has detached the pods that are still on the other node.
    await assertNoAddressTwice(cluster);
  });

  await step("the node reconnects, and its old pods are deleted", async () => {
    cluster.setConnected(second, true);
    api.kubectl("uncordon", second.name);
    await settle(cluster);
    await until(
      "the addresses are released",
      () => listAllocations(cluster) === 6,
    );
  });

  await step("pods move to the node", async () => {
    api.kubectl("cordon", first.name);
    api.kubectl("rollout", "restart", "deployment/many");
    api.kubectl("rollout", "status", "deployment/many", "--timeout=5m");
    api.kubectl("uncordon", first.name);
    await settle(cluster);
    assertEquals(podsOf(second.name), 6);
  });

  await step("the node loses its power", async () => {
    await cluster.reboot(second);
    await settle(cluster);
    await until(
      "the addresses are released",
      () => listAllocations(cluster) === 6,
    );
  });

  await step("nothing is left", async () => {
    await removeAll(cluster, before);
    assertEquals(listAllocations(cluster), 0);
  });
});
