/**
 * Multus and whereabouts on a cluster, as their READMEs install them.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { BIN } from "../_harness/executables.ts";
import type { Cluster } from "./cluster.ts";
import type { Node } from "./node.ts";
import { settle } from "./pods.ts";
import { until } from "../_harness/eventually.ts";

/** Directory of the manifests. */
export const DEPLOY: string = decodeURIComponent(
  new URL("../../deploy/", import.meta.url).pathname,
);

/** Describes a network of one plugin. */
export function definition(name: string, plugin: JsonObject): JsonObject {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "1.0.0", name, ...plugin }) },
  };
}

/** Installs all plugins, and whereabouts, which has the credentials of multus. */
export async function prepareMultus(node: Node): Promise<void> {
  const kubeconfig = "/etc/cni/net.d/multus.d/multus.kubeconfig";
  const flatFile = "/etc/cni/net.d/whereabouts.d/whereabouts.conf";
  node.write(flatFile, { kubernetes: { kubeconfig } });
  await node.get(`${BIN}/cni install --no-daemon /opt/cni/bin
    ${BIN}/cni install --no-daemon --only whereabouts /opt/cni/bin`);
}

/** Applies the manifests, and waits until runtimes use multus. */
export async function applyManifests(
  cluster: Cluster,
  withDaemon: boolean,
): Promise<void> {
  const { api, hosts, nodes } = cluster;
  const directory = `${hosts.directory}/deploy`;
  await new Deno.Command("cp", { args: ["-r", DEPLOY, directory] }).output();
  if (withDaemon) {
    const kustomization = `${directory}/multus/kustomization.yaml`;
    const component = "\ncomponents: [daemon]\n";
    await Deno.writeTextFile(kustomization, component, { append: true });
  }
  api.kubectl("apply", "-k", `${directory}/whereabouts`);
  api.kubectl("apply", "-k", `${directory}/multus`);
  // It runs when a test says so.
  const suspend = ["-n", "kube-system", "-p", '{"spec":{"suspend":true}}'];
  api.kubectl("patch", "cronjob", "cni-cluster-gc", ...suspend);
  // As a comment in the manifest says.
  const account = "--serviceaccount=kube-system:multus";
  const grant = ["create", "rolebinding", "multus-whereabouts", account];
  api.kubectl(...grant, "--role=cni-whereabouts", "-n", "kube-system");
  for (const node of nodes) {
    await until(`the network of ${node.name} is that of multus`, async () => {
      node.assertRuns();
      const file = "/etc/cni/net.d/00-multus.conflist";
      return (await node.run(`test -e ${file}`)).code === 0;
    }, () => api.kubectl("describe", "pods", "-n", "kube-system"));
  }
  await settle(cluster);
}

/** Counts the addresses in whereabouts' pools. */
export function listAllocations({ api }: Cluster): number {
  const { items } = api.get("ippools", "-n", "kube-system");
  return items.flatMap(({ spec }: JsonObject) =>
    Object.keys((spec as JsonObject).allocations as JsonObject)
  ).length;
}
