// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

/**
 * The controllers of whereabouts' reference.
 *
 * @module
 */

import type { NodeSlicePool } from "../../ipam/whereabouts/objects.ts";
import { eventually } from "./eventually.ts";
import { createAll, type KubeApiServer } from "./kube_apiserver.ts";
import { GROUP, NAMESPACE, REFERENCE } from "./whereabouts_cluster.ts";

/** Runs the reference's reconciler every second, until something is done. */
export async function reconcile(
  server: KubeApiServer,
  done: () => Promise<void>,
): Promise<void> {
  await whileReconciling(server, ["reconciler"], done);
}

/** Programs of the reference that clean up. */
export type Cleaner = "reconciler" | "controlloop";

/**
 * Runs programs of the reference while something is done. The node of the control
 * loop is `node1`, which exists.
 */
export async function whileReconciling(
  server: KubeApiServer,
  programs: readonly Cleaner[],
  work: () => Promise<void>,
): Promise<void> {
  const root = await prepareRoot(server, programs);
  const { hostname, port } = new URL(server.url);
  const env = {
    KUBERNETES_SERVICE_HOST: hostname,
    KUBERNETES_SERVICE_PORT: port,
    NODENAME: "node1",
    WHEREABOUTS_NAMESPACE: NAMESPACE,
  };
  const run = programs.reduceRight<() => Promise<void>>(
    (inner, program) => () =>
      whileRunning("chroot", { args: [root, `/${program}`], env }, inner),
    work,
  );
  await run();
}

/** Makes the root directory of programs whose paths are fixed. */
async function prepareRoot(
  server: KubeApiServer,
  programs: readonly Cleaner[],
): Promise<string> {
  const { directory } = server;
  await server.create(`/api/v1/namespaces/${NAMESPACE}/serviceaccounts`, {
    metadata: { name: "reference" },
  });
  await server.create(
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    {
      metadata: { name: "reference" },
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name: "cluster-admin",
      },
      subjects: [
        { kind: "ServiceAccount", name: "reference", namespace: NAMESPACE },
      ],
    },
  );
  const root = `${directory}/root`;
  const secrets = `${root}/var/run/secrets/kubernetes.io/serviceaccount`;
  Deno.mkdirSync(secrets, { recursive: true });
  Deno.mkdirSync(`${root}/cron-schedule`);
  Deno.writeTextFileSync(`${root}/cron-schedule/config`, "@every 1s");
  const flat = `${root}/host/etc/cni/net.d/whereabouts.d`;
  Deno.mkdirSync(flat, { recursive: true });
  Deno.copyFileSync(server.kubeconfig, `${flat}/whereabouts.kubeconfig`);
  const kubeconfig = "/host/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig";
  const text = JSON.stringify({ kubernetes: { kubeconfig } });
  Deno.writeTextFileSync(`${flat}/whereabouts.conf`, text);
  for (const program of programs) {
    Deno.copyFileSync(`${REFERENCE}/${program}`, `${root}/${program}`);
  }
  Deno.copyFileSync(`${directory}/ca.crt`, `${secrets}/ca.crt`);
  const token = await server.tokenOf(NAMESPACE, "reference");
  Deno.writeTextFileSync(`${secrets}/token`, token);
  return root;
}

async function whileRunning(
  program: string,
  options: Deno.CommandOptions,
  work: () => Promise<void>,
): Promise<void> {
  const child = new Deno.Command(program, {
    ...options,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let hasEnded = false;
  const ended = child.status.then(({ code }) => {
    hasEnded = true;
    throw new Error(`${options.args?.join(" ")} has ended with ${code}`);
  });
  try {
    await Promise.race([work(), ended]);
  } finally {
    if (!hasEnded) child.kill("SIGKILL");
    await ended.catch(() => {});
  }
}

/** Has the reference's controller slice a range for two nodes. */
export async function sliceNodes(
  server: KubeApiServer,
): Promise<Map<string, string>> {
  const definitions = "/apis/k8s.cni.cncf.io/v1/namespaces/" +
    `${NAMESPACE}/network-attachment-definitions`;
  const manifests = new URL("../../deploy/multus/crd.yaml", import.meta.url);
  await createAll(server, Deno.readTextFileSync(manifests));
  for (const name of ["node1", "node2"]) {
    await server.create("/api/v1/nodes", { metadata: { name } });
  }
  const config = {
    cniVersion: "1.0.0",
    name: "net",
    type: "macvlan",
    ipam: {
      type: "whereabouts",
      kubernetes: { kubeconfig: server.kubeconfig },
      configuration_path: `${server.directory}/flat.conf`,
      ...SLICED,
    },
  };
  await eventually("the definition is created", async () => {
    const created = server.create(definitions, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "net" },
      spec: { config: JSON.stringify(config) },
    });
    return await created.then(() => true, () => false);
  });
  const slices = new Map<string, string>();
  const options = {
    args: [`-kubeconfig=${server.kubeconfig}`],
    env: { WHEREABOUTS_NAMESPACE: NAMESPACE },
  };
  await whileRunning(
    `${REFERENCE}/node-slice-controller`,
    options,
    async () => {
      await eventually("both nodes have a slice", async () => {
        const path = `${GROUP}/namespaces/${NAMESPACE}/nodeslicepools/net`;
        const found = await server.client.request<NodeSlicePool>({ path })
          .catch(() => undefined);
        for (const slice of found?.status?.allocations ?? []) {
          if (slice.nodeName) slices.set(slice.nodeName, slice.sliceRange);
        }
        return slices.size === 2;
      });
    },
  );
  return slices;
}

/** A range that is sliced. */
export const SLICED = { range: "10.12.0.0/24", node_slice_size: "/26" };
