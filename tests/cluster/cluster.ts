/**
 * A Kubernetes cluster on this machine: etcd, API server, scheduler and
 * controller manager in one network namespace, which is also the router between
 * the nodes; and nodes.
 *
 * ```ts ignore
 * await using cluster = await Cluster.start({ nodes: 1 });
 * cluster.api.apply(pod("web"));
 * await cluster.settle();
 * ```
 *
 * @module
 */

import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { writePauseImage } from "../_harness/containerd.ts";
import { BIN } from "../_harness/executables.ts";
import { type Image, listLibraries, writeImage } from "../_harness/image.ts";
import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { killIfAlive } from "../_harness/process_group.ts";
import { RealApiServer } from "../_harness/real_api_server.ts";
import { Node } from "./node.ts";
import {
  containerd,
  joinCluster,
  PAUSE_IMAGE,
  type Runtime,
  startDaemon,
  startKubelet,
} from "./runtime.ts";
import { until } from "../_harness/eventually.ts";

/** The address of the API server, which is also that of its service. */
const SERVICE = "10.96.0.1";

/** The image of pods: busybox, whose web server listens on port 80. */
export const POD_IMAGE = "localhost/busybox:1";

/** Options of a cluster. */
export interface ClusterOptions {
  /** How many nodes; 1 if undefined. */
  readonly nodes?: number;
  /** containerd if undefined. */
  readonly runtime?: Runtime;
  /** The network of a node, by the subnet of its pods; undefined for none. */
  readonly network?: (subnet: string) => object;
  /** Prepares a node before its kubelet starts for the first time; installs our plugins if undefined. */
  readonly prepare?: (node: Node) => Promise<void>;
}

/** ptp with addresses by host-local and ports of the node. */
export function ptpNetwork(subnet: string): object {
  const ipam = { type: "host-local", subnet, routes: [{ dst: "0.0.0.0/0" }] };
  return {
    cniVersion: "1.1.0",
    name: "pods",
    plugins: [
      { type: "ptp", ipMasq: false, ipam },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

/** Installs our plugins as a user does. */
export async function installPlugins(node: Node): Promise<void> {
  await node.get(`${BIN}/cni install --no-daemon /opt/cni/bin`);
}

/** A running cluster. */
export class Cluster implements AsyncDisposable {
  readonly hosts: TestHosts;
  /** The API server, and kubectl. */
  readonly api: RealApiServer;
  readonly nodes: Node[] = [];
  readonly #options: ClusterOptions;
  readonly #controllers: Deno.ChildProcess[] = [];
  #images: readonly string[] = [];

  private constructor(
    hosts: TestHosts,
    api: RealApiServer,
    options: ClusterOptions,
  ) {
    [this.hosts, this.api, this.#options] = [hosts, api, options];
  }

  /** Starts one, and waits until its nodes are ready. */
  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const hosts = TestHosts.create();
    let cluster: Cluster | undefined;
    try {
      runIn(hosts.host, "ip", "address", "add", `${SERVICE}/32`, "dev", "lo");
      runIn(hosts.host, "sysctl", "-qw", "net.ipv4.ip_forward=1");
      runIn(hosts.host, "ip", "link", "add", "fabric", "up", "type", "bridge");
      const api = await RealApiServer.start(hosts, {
        address: SERVICE,
        ports: [443, 2379, 2380],
        flags: API_SERVER_FLAGS,
      });
      cluster = new Cluster(hosts, api, options);
      cluster.#startControllers();
      cluster.#images = await writeImages(hosts.directory);
      for (let at = 1; at <= (options.nodes ?? 1); at++) {
        await cluster.#addNode(at);
      }
      await cluster.#untilReady();
      return cluster;
    } catch (error) {
      console.error(cluster?.logs() ?? "");
      await cluster?.[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The first node. */
  get node(): Node {
    const [node] = this.nodes;
    if (node === undefined) throw new Error("The cluster has no node");
    return node;
  }

  #startControllers(): void {
    const { start, kubeconfig } = this.api.programs;
    const common = {
      kubeconfig,
      "leader-elect": "false",
      "secure-port": "0",
    };
    this.#controllers.push(
      start("kube-scheduler", common),
      start("kube-controller-manager", {
        ...common,
        "service-account-private-key-file": "server.key",
        "root-ca-file": "ca.crt",
        // A node that is cut off is noticed soon.
        "node-monitor-grace-period": "20s",
      }),
    );
  }

  async #addNode(at: number): Promise<void> {
    const directory = `${this.hosts.directory}/node${at}`;
    const node = new Node(`node${at}`, directory);
    this.nodes.push(node);
    const { prepare = installPlugins, runtime = containerd } = this.#options;
    await node.boot();
    await this.#connect(node);
    await joinCluster(node, this.api, addressOf(at), runtime);
    await prepare(node);
    const network = this.#options.network?.(subnetOf(at));
    if (network) node.write("/etc/cni/net.d/10-pods.conflist", network);
    await runtime.start(node);
    for (const image of this.#images) await runtime.load(node, image);
    startKubelet(node, addressOf(at));
  }

  /** Gives a node its link, its address and its routes. */
  async #connect(node: Node): Promise<void> {
    const at = this.nodes.indexOf(node) + 1;
    const { host } = this.hosts;
    const ip = (...args: string[]): string => runIn(host, "ip", ...args);
    const { name, init } = node;
    // One of the last boot goes with its namespace, sooner or later.
    using rtnl = Rtnl.open(host.path);
    for (const link of [name, `${name}-fabric`]) {
      const old = rtnl.link.find(link);
      if (old !== undefined) rtnl.link.del(old.index);
    }
    ip("link", "add", name, "type", "veth", "peer", "eth0", "netns", `${init}`);
    ip("address", "add", `${routerOf(at)}/24`, "dev", name);
    ip("link", "set", name, "up");
    // A second network, of the nodes' links alone.
    const fabric = `${name}-fabric`;
    ip(
      "link",
      "add",
      fabric,
      "type",
      "veth",
      "peer",
      "eth1",
      "netns",
      `${init}`,
    );
    ip("link", "set", fabric, "up", "master", "fabric");
    await node.get(
      `ip link set lo up
      ip address add ${addressOf(at)}/24 dev eth0
      ip link set eth0 up
      ip link set eth1 up
      ip route add default via ${routerOf(at)}
      sysctl -qw net.ipv4.ip_forward=1`,
    );
    ip("route", "replace", subnetOf(at), "via", addressOf(at));
  }

  /** Cuts a node off from the others and from the API server, or joins it again. */
  setConnected(node: Node, isConnected: boolean): void {
    const { host } = this.hosts;
    const state = isConnected ? "up" : "down";
    for (const link of [node.name, `${node.name}-fabric`]) {
      runIn(host, "ip", "link", "set", link, state);
    }
    if (!isConnected) return;
    // The kernel has removed it with the link.
    const at = this.nodes.indexOf(node) + 1;
    runIn(host, "ip", "route", "replace", subnetOf(at), "via", addressOf(at));
  }

  /** Loses the power of a node, and switches it on again. */
  async reboot(node: Node, withDaemon = false): Promise<void> {
    await node.crash();
    await node.boot();
    await this.#connect(node);
    if (withDaemon) await startDaemon(node);
    await this.restartRuntime(node);
    this.restartKubelet(node);
  }

  /** Starts the runtime of a node on which it does not run. */
  async restartRuntime(node: Node): Promise<void> {
    await (this.#options.runtime ?? containerd).start(node);
  }

  /** Starts the kubelet of a node on which it does not run. */
  restartKubelet(node: Node): void {
    startKubelet(node, addressOf(this.nodes.indexOf(node) + 1));
  }

  async #untilReady(): Promise<void> {
    await until("all nodes are ready", () => {
      for (const node of this.nodes) node.assertRuns();
      const { items } = this.api.get("nodes");
      const isReady = ({ status }: Json): boolean =>
        status.conditions.some(({ type, status }: Json) =>
          type === "Ready" && status === "True"
        );
      return items.length === this.nodes.length && items.every(isReady);
    }, () => this.logs());
    // The admission of pods needs it.
    await until("the namespace has its service account", () => {
      const { items } = this.api.get("serviceaccounts");
      return items.length > 0;
    });
  }

  /** Returns the ends of all logs. */
  logs(): string {
    return this.#sh('tail -n 8 "$0"/api/kube-*.log "$0"/node*/log/*.log');
  }

  /** Copies all logs to a directory, for who looks into a failure. */
  keepLogs(directory: string): void {
    this.#sh(
      `rm -rf "$1"; mkdir -p "$1"; cp "$0"/api/*.log "$1"
      for node in "$0"/node*; do cp -r "$node/log" "$1/\${node##*/}"; done`,
      directory,
    );
  }

  /** Runs commands on the directory of the cluster, which is $0. */
  #sh(script: string, ...args: string[]): string {
    const { stdout } = new Deno.Command("sh", {
      args: ["-c", script, this.hosts.directory, ...args],
    }).outputSync();
    return new TextDecoder().decode(stdout);
  }

  /** Ends everything, nodes first. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes) await node[Symbol.asyncDispose]();
    for (const { pid, status } of this.#controllers) {
      killIfAlive(pid);
      await status;
    }
    await this.api[Symbol.asyncDispose]();
    this.hosts[Symbol.dispose]();
  }
}

// deno-lint-ignore no-explicit-any -- as kubectl prints it
type Json = any;

const API_SERVER_FLAGS = {
  "disable-admission-plugins": "",
  // For logs and exec.
  "kubelet-client-certificate": "admin.crt",
  "kubelet-client-key": "admin.key",
  "kubelet-preferred-address-types": "InternalIP",
};

const addressOf = (at: number): string => `172.31.${at}.2`;
const routerOf = (at: number): string => `172.31.${at}.1`;
const subnetOf = (at: number): string => `10.244.${at}.0/24`;

/** Writes the images that nodes get; returns their paths. */
async function writeImages(directory: string): Promise<string[]> {
  const executable = `${BIN}/cni`;
  const libraries = await listLibraries(executable);
  const ours = (name: string, type: string): Image => ({
    name,
    files: { [`/opt/cni/bin/${type}`]: executable, ...libraries },
    entrypoint: [`/opt/cni/bin/${type}`],
  });
  const pods: Image = {
    name: POD_IMAGE,
    files: { "/bin/busybox": `${DIRECTORY}/busybox` },
    links: Object.fromEntries(
      ["sh", "sleep", "httpd", "ip", "ping", "wget"]
        .map((name) => [`/bin/${name}`, "busybox"]),
    ),
    entrypoint: ["/bin/httpd", "-f", "-p", "80", "-h", "/"],
  };
  const images = [
    pods,
    ours("cni-plugins:0.1.0", "cni"),
    ours("multus:0.1.0", "multus"),
  ];
  const paths = [await writePauseImage(`${directory}/pause`, PAUSE_IMAGE)];
  for (const [at, image] of images.entries()) {
    const place = `${directory}/image${at}`;
    await Deno.mkdir(place);
    paths.push(await writeImage(place, image));
  }
  return paths;
}
