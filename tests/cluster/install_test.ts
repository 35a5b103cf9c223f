/**
 * Installing and removing our plugins on a node whose pods run: the manifests
 * take the place of Go's plugins, and put them back.
 */

import { assertEquals } from "@std/assert";
import {
  allOf,
  ignoreUnless,
  isExecutable,
} from "../../testing/capabilities.ts";
import { NEWEST_DIRECTORY } from "../_harness/peers.ts";
import { ptpNetwork } from "./cluster.ts";
import { clusterTest, needsCluster } from "./cluster_test_case.ts";
import { DEPLOY } from "./multus.ts";
import type { Node } from "./node.ts";
import {
  readTraces,
  removeAll,
  settle,
  whileRolling,
  workload,
} from "./pods.ts";
import { until } from "../_harness/eventually.ts";

/** Digests of the plugins in use. */
async function digests(node: Node): Promise<string> {
  return await node.get(
    "cd /opt/cni/bin; sha256sum bridge host-local portmap ptp",
  );
}

clusterTest("plugins replace the Go plugins, and are uninstalled", {
  network: ptpNetwork,
  prepare: async (node) =>
    void await node.get(`cp ${NEWEST_DIRECTORY}/* /opt/cni/bin/`),
  needs: allOf(
    needsCluster,
    ignoreUnless(
      isExecutable(`${NEWEST_DIRECTORY}/ptp`),
      "needs the Go plugins",
    ),
  ),
}, async (cluster, step) => {
  const { api, node } = cluster;
  const before = [await readTraces(node)];
  const goes = await digests(node);
  const roll = async (): Promise<void> => {
    api.kubectl("rollout", "restart", "deployment/many", "statefulset/named");
    for (const name of ["deployment/many", "statefulset/named"]) {
      api.kubectl("rollout", "status", name, "--timeout=5m");
    }
    await settle(cluster);
  };
  const rollOut = (name: string): void => {
    const args = ["-n", "kube-system", "rollout", "status", "--timeout=5m"];
    try {
      api.kubectl(...args, `daemonset/${name}`);
    } catch (error) {
      console.error(api.kubectl("-n", "kube-system", "describe", "pods"));
      throw error;
    }
  };

  await step("the Go plugins attach pods", async () => {
    api.apply(workload("Deployment", "many", 4, {}));
    api.apply(workload("StatefulSet", "named", 1, { hostPort: 8080 }));
    await settle(cluster);
  });

  await step(
    "plugins and daemon are installed while the pods run",
    async () => {
      await whileRolling(cluster, "many", () => {
        api.kubectl("apply", "-k", `${DEPLOY}plugins`);
        api.kubectl("scale", "deployment/many", "--replicas=6");
        rollOut("cni-plugins");
      });
      await settle(cluster);
      assertEquals(await digests(node) === goes, false);
    },
  );

  await step("the new plugins detach pods of the Go plugins", async () => {
    await roll();
    const status = await node.get("/opt/cni/bin/cni daemon status --json");
    const { calls } = JSON.parse(status);
    assertEquals([calls.done > 0, calls.left], [true, 0], status);
  });

  await step("the node is not ready without an IPAM plugin", async () => {
    await node.get("mv /opt/cni/bin/host-local /opt/cni/bin/host-local.away");
    const isReady = (): boolean =>
      api.get("node", node.name).status.conditions.find((
        { type }: { type: string },
      ) => type === "Ready").status === "True";
    await until("the node is not ready", () => !isReady());
    await node.get("mv /opt/cni/bin/host-local.away /opt/cni/bin/host-local");
    await until("the node is ready", isReady);
  });

  await step("the Go plugins are restored while pods run", async () => {
    await whileRolling(cluster, "many", () => {
      api.kubectl("delete", "-k", `${DEPLOY}plugins`);
      api.kubectl("apply", "-f", `${DEPLOY}plugins/uninstall.yaml`);
      rollOut("cni-plugins-uninstall");
    });
    api.kubectl("delete", "-f", `${DEPLOY}plugins/uninstall.yaml`);
    await settle(cluster);
    assertEquals(await digests(node), goes);
  });

  await step("the Go plugins detach pods of the new plugins", async () => {
    await roll();
    // As docs/uninstall.md says: Go's portmap does not know this table.
    await node.get("nft delete table inet cni_portmap");
  });
  await step("nothing is left", () => removeAll(cluster, before));
});
