/**
 * Pods with several networks on a cluster of one node: multus by its manifests,
 * without and with the node daemon, and whereabouts; with containerd and CRI-O.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { allOf } from "../../testing/capabilities.ts";
import { type Cluster, ptpNetwork } from "./cluster.ts";
import { clusterTest } from "./cluster_test_case.ts";
import { CASES, needsPrivileged } from "./crio.ts";
import {
  applyManifests,
  definition,
  listAllocations,
  prepareMultus,
} from "./multus.ts";
import {
  cycleRuntime,
  listSandboxes,
  pod,
  readTraces,
  removeAll,
  settle,
  workload,
} from "./pods.ts";
import { until } from "../_harness/eventually.ts";

const NETWORKS = { "k8s.v1.cni.cncf.io/networks": "green,wide@net7" };

/** A bridge with an address of the node. */
function bridge(name: string, ipam: JsonObject): JsonObject {
  const keys = { type: "bridge", bridge: `br-${name}`, isGateway: true };
  return definition(name, { ...keys, ipam });
}

/** Checks that the annotation of each pod says what its sandbox has. */
async function assertStatuses({ api, node }: Cluster): Promise<void> {
  const sandboxes = await listSandboxes(node);
  for (const { metadata } of api.get("pods").items) {
    const status = JSON.parse(
      metadata.annotations["k8s.v1.cni.cncf.io/network-status"],
    );
    assertEquals(
      status.map(({ name, interface: link }: JsonObject) => [link, name]),
      [["eth0", "pods"], ["net1", "default/green"], ["net7", "default/wide"]],
      metadata.name,
    );
    const addresses = status.flatMap(({ ips }: { ips: string[] }) => ips);
    const sandbox = sandboxes.find((one) =>
      one.addresses.includes(addresses[0])
    );
    assertEquals(addresses.toSorted(), sandbox?.addresses.toSorted());
  }
}

for (const { runtime, needs, withDaemon } of CASES) {
  const how = withDaemon ? "thick: by its daemon" : "thin: by processes";
  clusterTest(`a node with ${runtime.program} and multus, ${how}`, {
    network: ptpNetwork,
    prepare: prepareMultus,
    runtime,
    needs: withDaemon ? allOf(needs, needsPrivileged(runtime)) : needs,
  }, async (cluster, step) => {
    const { api, node } = cluster;

    await step(
      "the manifests install multus",
      () => applyManifests(cluster, withDaemon),
    );
    api.apply(
      bridge("green", { type: "host-local", subnet: "10.56.0.0/24" }),
      bridge("wide", {
        type: "whereabouts",
        range: "10.57.0.0/24",
        gateway: "10.57.0.254",
        exclude: ["10.57.0.254/32"],
      }),
    );
    const options = { annotations: NETWORKS };
    // The bridges stay.
    api.apply(pod("first", options));
    await settle(cluster);
    api.kubectl("delete", "pod", "first");
    await until(
      "the pod has gone",
      async () => (await listSandboxes(node)).length === 0,
    );
    const before = [await readTraces(node)];

    await step("pods get their networks", async () => {
      api.apply(workload("Deployment", "many", 4, options));
      api.apply(workload("StatefulSet", "named", 2, options));
      await settle(cluster);
      await assertStatuses(cluster);
      assertEquals(listAllocations(cluster), 6);
    });

    await step("a deployment rolls", async () => {
      api.kubectl("set", "env", "deployment/many", "ROUND=1");
      api.kubectl("rollout", "status", "deployment/many", "--timeout=5m");
      await settle(cluster);
      await assertStatuses(cluster);
    });

    if (withDaemon) {
      await step("the daemon is killed while pods start", async () => {
        api.kubectl("scale", "deployment/many", "--replicas=1");
        api.kubectl("scale", "deployment/many", "--replicas=5");
        await node.get("kill -9 $(pgrep -f '[m]ultus daemon')");
        await settle(cluster);
        await assertStatuses(cluster);
      });
    }

    await step("pods keep their networks when the runtime starts", async () => {
      const sandboxes = await listSandboxes(node);
      await cycleRuntime(cluster, runtime, "SIGTERM");
      await settle(cluster);
      assertEquals(await listSandboxes(node), sandboxes);
      await assertStatuses(cluster);
    });

    await step("the runtime is killed while pods start", async () => {
      api.kubectl("scale", "deployment/many", "--replicas=1");
      api.kubectl("scale", "deployment/many", "--replicas=5");
      await node.signal(runtime.program, "SIGKILL");
      await cluster.restartRuntime(node);
      await settle(cluster);
      await assertStatuses(cluster);
    });

    await step("the API server is away while pods are deleted", async () => {
      api.kubectl("scale", "deployment/many", "--replicas=2");
      await api.restart();
      await settle(cluster);
    });

    await step("the node loses its power", async () => {
      await cluster.reboot(node);
      await settle(cluster);
      await assertStatuses(cluster);
    });

    await step("nothing is left", async () => {
      await removeAll(cluster, before);
      assertEquals(listAllocations(cluster), 0);
    });
  });
}
