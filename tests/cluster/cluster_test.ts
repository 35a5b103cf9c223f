/**
 * Pods, workloads, ports and crashes on a cluster of one node: ptp, host-local
 * and portmap, with containerd and CRI-O, with the node daemon and without. Rules
 * of others are there all the time.
 */

import { assertEquals } from "@std/assert";
import { runIn } from "../../testing/ip_json.ts";
import { type Cluster, ptpNetwork } from "./cluster.ts";
import { clusterTest } from "./cluster_test_case.ts";
import { CASES } from "./crio.ts";
import {
  cycleRuntime,
  killSandbox,
  listSandboxes,
  pod,
  readTraces,
  removeAll,
  settle,
  workload,
} from "./pods.ts";
import { startDaemon } from "./runtime.ts";
import { until } from "../_harness/eventually.ts";

for (const { runtime, needs, withDaemon } of CASES) {
  const how = withDaemon ? "by the node daemon" : "by processes";
  clusterTest(`a node with ${runtime.program} and ptp, ${how}`, {
    network: ptpNetwork,
    runtime,
    needs,
  }, async (cluster, step) => {
    const { api, node } = cluster;
    if (withDaemon) await startDaemon(node);
    await node.get(POLICIES);
    const before = [await readTraces(node)];

    await step("pods start and are deleted", async () => {
      api.apply(...["a", "b", "c"].map((name) => pod(name)));
      await settle(cluster);
      await removeAll(cluster, before);
    });

    await step("a host port is forwarded to a pod", async () => {
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

    await step("a StatefulSet gets new pods", async () => {
      api.apply(workload("StatefulSet", "named", 2));
      await settle(cluster);
      api.kubectl("delete", "pod", "named-0", "--wait=false");
      await settle(cluster);
    });

    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await step(`pods survive when the runtime gets ${signal}`, async () => {
        const sandboxes = await listSandboxes(node);
        await cycleRuntime(cluster, runtime, signal);
        await settle(cluster);
        assertEquals(await listSandboxes(node), sandboxes);
      });
    }

    await step("sandboxes vanish while the runtime is stopped", async () => {
      const [first, second] = await listSandboxes(node);
      if (!first || !second) throw new Error("two pods");
      await node.signal(runtime.program, "SIGTERM");
      for (const sandbox of [first, second]) await killSandbox(node, sandbox);
      await cluster.restartRuntime(node);
      await settle(cluster);
      const paths = (await listSandboxes(node)).map(({ path }) => path);
      assertEquals(paths.includes(first.path), false);
    });

    for (const program of ["kubelet", runtime.program, "cni-daemon"] as const) {
      if (program === "cni-daemon" && !withDaemon) continue;
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        await step(`${program} gets ${signal} while pods start`, async () => {
          api.kubectl("scale", "deployment/rolling", "--replicas=1");
          api.kubectl("scale", "deployment/rolling", "--replicas=5");
          await node.signal(program, signal);
          if (program === "kubelet") cluster.restartKubelet(node);
          if (program === runtime.program) await cluster.restartRuntime(node);
          if (program === "cni-daemon") await startDaemon(node);
          await settle(cluster);
        });
      }
    }

    await step("the node loses its power", async () => {
      await cluster.reboot(node, withDaemon);
      await node.get(POLICIES);
      await settle(cluster);
    });

    await step("the network is replaced while pods run", async () => {
      node.write("/etc/cni/net.d/10-pods.conflist", {
        cniVersion: "1.1.0",
        name: "others",
        plugins: [{
          type: "ptp",
          ipam: {
            type: "host-local",
            ranges: [[{ subnet: "10.244.1.0/24", rangeStart: "10.244.1.200" }]],
            routes: [{ dst: "0.0.0.0/0" }],
          },
        }],
      });
      api.kubectl("rollout", "restart", "deployment/rolling");
      api.kubectl("rollout", "status", "deployment/rolling", "--timeout=5m");
      api.kubectl("rollout", "restart", "statefulset/named");
      api.kubectl("rollout", "status", "statefulset/named", "--timeout=5m");
      await settle(cluster);
      // containerd has run DEL with the new configuration. What it left is kept
      // until the kubelet has removed the stopped sandboxes.
      if (!runtime.hasGc && !withDaemon) {
        await until("the leases of the old network are removed", async () => {
          await node.get("/opt/cni/bin/cni gc --orphans --yes --grace=0s");
          return await node.get(
            "ls /var/lib/cni/networks/pods | grep -c ^10 || true",
          ) === "0\n";
        });
      }
    });

    await step("nothing is left", () => removeAll(cluster, before));
  });
}

/**
 * Adds rules as a controller of network policies does. They are among the traces,
 * and so must stay as they are.
 */
const POLICIES = `nft -f - << end
table inet policies {
  set isolated {
    type ipv4_addr
    elements = { 10.244.1.2, 10.244.1.3 }
  }
  chain forward {
    type filter hook forward priority filter - 1
    ip daddr @isolated tcp dport 4444 drop
    ip saddr 10.244.0.0/16 tcp dport 4445 drop
  }
}
end
iptables-nft -N KUBE-NWPLCY-TEST
iptables-nft -A KUBE-NWPLCY-TEST -p tcp --dport 4446 -j DROP
iptables-nft -I FORWARD -m comment --comment policies -j KUBE-NWPLCY-TEST`;

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
