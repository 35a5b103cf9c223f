/**
 * Pods, workloads, ports and crashes on a cluster of one node: ptp, host-local
 * and portmap, with the node daemon and without.
 */

import { assertEquals } from "@std/assert";
import { runIn } from "../../testing/ip_json.ts";
import { Cluster, ptpNetwork } from "./cluster.ts";
import { clusterTest } from "./cluster_test_case.ts";
import { pod, readTraces, removeAll, settle, workload } from "./pods.ts";
import { startDaemon } from "./runtime.ts";
import { until } from "../_harness/eventually.ts";

for (const withDaemon of [false, true]) {
  const how = withDaemon ? "by the node daemon" : "by processes";
  clusterTest(`a node with ptp, ${how}`, {
    network: ptpNetwork,
  }, async (cluster, step) => {
    const { api, node } = cluster;
    if (withDaemon) await startDaemon(node);
    const before = [await readTraces(node)];

    await step("pods start, and are gone", async () => {
      api.apply(...["a", "b", "c"].map((name) => pod(name)));
      await settle(cluster);
      await removeAll(cluster, before);
    });

    await step("a port of the node leads to a pod", async () => {
      api.apply(pod("web", { hostPort: 8080 }));
      await settle(cluster);
      await until("the port answers", () => answers(cluster));
      await removeAll(cluster, before);
      assertEquals(answers(cluster), false);
    });

    await step("a deployment rolls", async () => {
      api.apply(workload("Deployment", "rolling", 4));
      await settle(cluster);
      for (let round = 1; round <= 2; round++) {
        const env = `ROUND=${round}`;
        api.kubectl("set", "env", "deployment/rolling", env);
        api.kubectl("rollout", "status", "deployment/rolling", "--timeout=5m");
        await settle(cluster);
      }
    });

    await step("a StatefulSet gets its pods back", async () => {
      api.apply(workload("StatefulSet", "named", 2));
      await settle(cluster);
      api.kubectl("delete", "pod", "named-0", "--wait=false");
      await settle(cluster);
    });

    for (const program of ["kubelet", "containerd", "cni-daemon"] as const) {
      if (program === "cni-daemon" && !withDaemon) continue;
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        await step(`${program} gets ${signal} while pods start`, async () => {
          api.kubectl("scale", "deployment/rolling", "--replicas=1");
          api.kubectl("scale", "deployment/rolling", "--replicas=5");
          await node.signal(program, signal);
          if (program === "kubelet") cluster.restartKubelet(node);
          if (program === "containerd") await cluster.restartRuntime(node);
          if (program === "cni-daemon") await startDaemon(node);
          await settle(cluster);
        });
      }
    }

    await step("the node loses its power", async () => {
      await cluster.reboot(node, withDaemon);
      await settle(cluster);
    });

    await step("nothing is left", () => removeAll(cluster, before));
  });
}

/** Reports whether the port is open, for a client outside the node. */
function answers({ hosts }: Cluster): boolean {
  const script = "exec 3<> /dev/tcp/172.31.1.2/8080";
  try {
    runIn(hosts.host, "bash", "-c", `${script} 2> /dev/null`);
    return true;
  } catch {
    return false;
  }
}
