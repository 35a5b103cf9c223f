// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * A cluster in which whereabouts and its reference serve pods together.
 * `CNI_WHEREABOUTS_DIR` names the directory of the reference's executables
 * `whereabouts`, `reconciler`, `controlloop` and `node-slice-controller`, built
 * without cgo: they run in a root directory without libraries.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import type { Plugin } from "../../../cni/plugin.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
  needsRoot,
} from "../../../testing/capabilities.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import {
  createAll,
  KubeApiServer,
  needsApiServer,
} from "../../../tests/_harness/kube_apiserver.ts";
import { run } from "../../../tests/_harness/recorder.ts";
import type {
  Allocations,
  IpPool,
  NodeSlicePool,
  Reservation,
} from "../objects.ts";
import { whereabouts } from "../plugin.ts";

/** The directory of the reference. */
export const REFERENCE: string = Deno.env.get("CNI_WHEREABOUTS_DIR") ?? "";
const needsReference = ignoreUnless(
  isExecutable(`${REFERENCE}/whereabouts`),
  "needs CNI_WHEREABOUTS_DIR",
);
/** Skips tests that need the cluster where it cannot run. */
export const needsSharedCluster: Needs =
  [needsRoot, needsApiServer, needsReference]
    .find(({ ignore }) => ignore) ?? needsRoot;

/** Path of the group. */
export const GROUP = "/apis/whereabouts.cni.cncf.io/v1alpha1";
/** The namespace of the objects. */
export const NAMESPACE = "kube-system";
/** Path of the pools. */
export const POOLS: string = `${GROUP}/namespaces/${NAMESPACE}/ippools`;
/** Path of the reservations. */
export const RESERVATIONS: string =
  `${GROUP}/namespaces/${NAMESPACE}/overlappingrangeipreservations`;

/** One of the two implementations. */
export type Side = "ours" | "reference";
/** Both. */
export const SIDES: readonly Side[] = ["ours", "reference"];
/** Returns the other implementation. */
export const other = (side: Side): Side =>
  side === "ours" ? "reference" : "ours";

/** An attachment. */
export interface PodCall {
  readonly pod: string;
  readonly id?: string;
  readonly ifName?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** More keys of the network configuration. */
  readonly conf?: JsonObject;
}

/** A cluster with the manifests of deploy/whereabouts. */
export class SharedCluster implements AsyncDisposable {
  readonly server: KubeApiServer;
  readonly #kubeconfig: string;

  private constructor(server: KubeApiServer, kubeconfig: string) {
    this.server = server;
    this.#kubeconfig = kubeconfig;
    Deno.writeTextFileSync(`${server.directory}/flat.conf`, "{}");
  }

  /** Starts it. */
  static async start(): Promise<SharedCluster> {
    const server = await KubeApiServer.start();
    const directory = new URL("../../../deploy/whereabouts/", import.meta.url);
    for (const file of ["crd.yaml", "rbac.yaml", "cronjob.yaml"]) {
      const text = Deno.readTextFileSync(new URL(file, directory));
      await createAll(server, text);
    }
    await eventually("the resources are served", async () => {
      const found = await server.client
        .request<{ resources?: readonly unknown[] }>({ path: GROUP })
        .catch(() => undefined);
      return found?.resources?.length === 3;
    });
    const kubeconfig = await server.kubeconfigOf(NAMESPACE, "whereabouts");
    return new SharedCluster(server, kubeconfig);
  }

  /** Runs a command. This project's plugin has only the permissions of deploy/whereabouts. */
  async call(
    side: Side,
    command: string,
    ipam: JsonObject,
    { pod, id = `id-${pod}`, ifName = "net1", env = {}, conf: keys }: PodCall,
  ): Promise<{ exitCode: number; stdout: string }> {
    const { directory, kubeconfig } = this.server;
    const conf = {
      cniVersion: "1.0.0",
      name: "net",
      type: "macvlan",
      ipam: {
        type: "whereabouts",
        kubernetes: {
          kubeconfig: side === "ours" ? this.#kubeconfig : kubeconfig,
        },
        configuration_path: `${directory}/flat.conf`,
        ...side === "ours" && { dataDir: `${directory}/allocations` },
        ...ipam,
      },
      ...keys,
    };
    const environment = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: id,
      CNI_NETNS: "/some/where",
      CNI_IFNAME: ifName,
      CNI_PATH: "/some/bin",
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${pod}`,
      ...env,
    };
    if (side === "ours") return run(whereabouts as Plugin, environment, conf);
    return await runReference(environment, conf);
  }

  /** Runs ADD, which must succeed. @returns The addresses */
  async add(side: Side, ipam: JsonObject, call: PodCall): Promise<string[]> {
    const { exitCode, stdout } = await this.call(side, "ADD", ipam, call);
    assertEquals(exitCode, 0, `${side}: ${stdout}`);
    return JSON.parse(stdout).ips
      .map(({ address }: { address: string }) => address);
  }

  /** Runs DEL, which must succeed. */
  async del(side: Side, ipam: JsonObject, call: PodCall): Promise<void> {
    const { exitCode, stdout } = await this.call(side, "DEL", ipam, call);
    assertEquals(exitCode, 0, `${side}: ${stdout}`);
  }

  /** Returns the content of all pools and reservations, by name. */
  async content(): Promise<Record<string, unknown>> {
    const { client } = this.server;
    const objects = [
      ...(await client.list<IpPool>(POOLS)).items ?? [],
      ...(await client.list<Reservation>(RESERVATIONS)).items ?? [],
    ];
    return Object.fromEntries(
      objects.map(({ metadata, spec }) => [metadata?.name, spec]),
    );
  }

  /** Returns the allocations of a pool. */
  async allocations(pool: string): Promise<Allocations> {
    const { spec } = await this.server.client.request<IpPool>({
      path: `${POOLS}/${pool}`,
    });
    return spec.allocations ?? {};
  }

  /** Removes all pools and reservations. */
  async clear(): Promise<void> {
    for (const path of [POOLS, RESERVATIONS]) {
      await this.server.client.request({ method: "DELETE", path });
    }
  }

  /** Creates a pod that has these addresses on a secondary network. */
  async createPod(name: string, ips: readonly string[]): Promise<void> {
    const status = [{ name: "test/net", interface: "net1", ips }];
    await this.server.create("/api/v1/namespaces/test/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        annotations: {
          "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status),
        },
      },
      spec: { containers: [{ name: "c", image: "c" }] },
    });
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
  }
}

async function runReference(
  env: Record<string, string>,
  conf: object,
): Promise<{ exitCode: number; stdout: string }> {
  const child = new Deno.Command(`${REFERENCE}/whereabouts`, {
    env,
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(conf)));
  await writer.close();
  const { code, stdout } = await child.output();
  return { exitCode: code, stdout: new TextDecoder().decode(stdout) };
}

/**
 * The controllers of whereabouts' reference.
 *
 * @module
 */

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
  const manifests = new URL("../../../deploy/multus/crd.yaml", import.meta.url);
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
