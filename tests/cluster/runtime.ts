/**
 * How a node's programs are configured and started.
 *
 * @module
 */

import type { RealApiServer } from "../_harness/real_api_server.ts";
import { writeKubeconfig } from "../../kube/testing/kubeconfig.ts";
import type { Node } from "./node.ts";
import { until } from "../_harness/eventually.ts";

/** The image of sandboxes. */
export const PAUSE_IMAGE = "registry.k8s.io/pause:3.10";

const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";

/** The runtime of a node's containers. */
export interface Runtime {
  readonly program: "containerd" | "crio";
  /** Whether it runs GC when it starts, and DEL with the configuration of ADD. */
  readonly hasGc: boolean;
  /** Of its CRI. */
  readonly socket: string;
  /** Starts it, and waits until it answers. */
  start(node: Node): Promise<void>;
  /** Gives it an image, as `docker save` writes it. */
  load(node: Node, tar: string): Promise<void>;
}

/** containerd 2 as it is by default, except for what this machine lacks. */
export const containerd: Runtime = {
  program: "containerd",
  hasGc: false,
  socket: CONTAINERD_SOCKET,
  async start(node: Node): Promise<void> {
    node.write(
      "/etc/containerd/config.toml",
      `version = 3
[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "${PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.nri.v1.nri']
disable = true
`,
    );
    node.start("containerd", "containerd");
    await until(
      "containerd answers",
      async () => (await node.run("ctr version")).code === 0,
      () => node.logOf("containerd"),
    );
  },
  async load(node: Node, tar: string): Promise<void> {
    await node.get(`ctr -n k8s.io images import '${tar}'`);
  },
};

/** Writes what the kubelet needs to be a member of the cluster. */
export async function joinCluster(
  node: Node,
  api: RealApiServer,
  address: string,
  runtime: Runtime,
): Promise<void> {
  const { url, caPem, authority } = api.programs;
  const clientCert = await authority.issue({
    commonName: `system:node:${node.name}`,
    organizations: ["system:nodes"],
    usage: "client",
  });
  const directory = node.pathOf("/etc/kubernetes");
  await Deno.mkdir(directory, { recursive: true });
  const target = { url, caPem, token: "", clientCert };
  writeKubeconfig(target, directory, "clientCertData", {
    file: "kubelet.conf",
  });
  node.write("/etc/kubernetes/ca.crt", caPem);
  node.write("/etc/kubernetes/resolv.conf", "nameserver 127.0.0.1\n");
  node.write("/etc/kubernetes/kubelet.json", {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: false },
      x509: { clientCAFile: "/etc/kubernetes/ca.crt" },
    },
    authorization: { mode: "AlwaysAllow" },
    containerRuntimeEndpoint: `unix://${runtime.socket}`,
    resolvConf: "/etc/kubernetes/resolv.conf",
    // The node is a part of a machine whose limits and disk are others'.
    cgroupDriver: "cgroupfs",
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    localStorageCapacityIsolation: false,
    evictionHard: { "memory.available": "0%" },
    imageGCHighThresholdPercent: 100,
    makeIPTablesUtilChains: false,
    maxPods: 400,
    // A restart is noticed soon.
    nodeStatusUpdateFrequency: "5s",
    syncFrequency: "10s",
    fileCheckFrequency: "10s",
    runtimeRequestTimeout: "2m",
    featureGates: { KubeletInUserNamespace: true },
  });
}

/** Starts the kubelet. */
export function startKubelet(node: Node, address: string): void {
  node.start(
    "kubelet",
    "kubelet",
    "--config=/etc/kubernetes/kubelet.json",
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    `--hostname-override=${node.name}`,
    `--node-ip=${address}`,
    "--v=2",
  );
}

/** Starts our node daemon, and waits until it answers. */
export async function startDaemon(node: Node): Promise<void> {
  node.start("cni-daemon", "/opt/cni/bin/cni", "daemon");
  await until(
    "the daemon answers",
    async () => (await node.run("/opt/cni/bin/cni daemon status")).code === 0,
    () => node.logOf("cni-daemon"),
  );
}
