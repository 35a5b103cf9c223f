/**
 * A node with executables, which are multus and its delegates, and an API server that
 * contains the pods of the node.
 *
 * ```ts ignore
 * await using host = await MultusHost.start();
 * const pod = host.addPod("web", { networks: "green" });
 * const added = await host.call("ADD", pod);
 * assertEquals(host.status(pod), [...]);
 * ```
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Environment } from "../../../base/process/environment.ts";
import { unlessMissing } from "../../../base/files/io.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { NetNs } from "../../../ffi/netns.ts";
import {
  type Needs,
  requireRoot,
  type TestBody,
  type TestHeader,
} from "../../../testing/capabilities.ts";
import type { ExecOutput } from "../../../testing/exec_in.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { BIN, needsBin } from "../../../tests/_harness/executables.ts";
import { KubeApi, type LoggedRequest } from "../../../kube/testing/kube_api.ts";
import { type Spawned, spawnIn } from "../../../tests/_harness/spawn_in.ts";
import { listFiles } from "./scene.ts";

export { BIN };

/** Returns the header of a test that needs a node. */
export function onHost(name: string, ...others: readonly Needs[]): TestHeader {
  return requireRoot(name, ...others, needsBin);
}

/** Registers a test that needs a node. */
export function hostTest(name: string, body: TestBody): void;
/** Registers a test that needs a node and has further requirements. */
export function hostTest(name: string, needs: Needs, body: TestBody): void;
export function hostTest(name: string, ...rest: (Needs | TestBody)[]): void {
  const needs = rest.slice(0, -1) as Needs[];
  Deno.test(onHost(name, ...needs), rest.at(-1) as TestBody);
}

/** The capability with which runtimes pass annotations. */
export const POD_ANNOTATIONS = "io.kubernetes.cri.pod-annotations";

/** The requests of a pod that, together with the master, has a network of each kind. */
export const TWO_NETWORKS: readonly JsonObject[] = [
  { name: "blue", ips: ["192.168.10.5/24"] },
  { name: "green" },
];

/** Differences from the default call. */
export interface HostCall {
  /** Replaces and adds keys of multus' configuration. */
  readonly keys?: JsonObject;
  /** Replaces and adds variables. */
  readonly env?: Environment;
  /** The command to run instead of multus. */
  readonly command?: readonly string[];
}

/** A call for a pod that requests limits. */
export const LIMITED: HostCall = {
  keys: {
    runtimeConfig: {
      bandwidth: {
        ingressRate: 1_000_000,
        ingressBurst: 1_000_000,
        egressRate: 1_000_000,
        egressBurst: 1_000_000,
      },
    },
  },
};

/** The outcome of a multus process. */
export interface HostOutput extends ExecOutput {
  /** The document on stdout; undefined if empty. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly json: any;
  /** How long it took, in milliseconds. */
  readonly ms: number;
}

/** Options of a node. */
export interface MultusHostOptions {
  /** The version of all configurations; 1.0.0 by default. */
  readonly cniVersion: string;
  /**
   * The protocol of its API servers; `http` by default, because a process that uses
   * TLS takes about 20 ms to collect entropy.
   */
  readonly transport: "http" | "https";
}

/** A node. */
export class MultusHost implements AsyncDisposable {
  /** The namespace of the node, and further namespaces. */
  readonly hosts: TestHosts;
  /** The API server, which listens in the node's namespace. */
  readonly api: KubeApi;
  readonly kubeconfig: string;
  /** The state of multus. */
  readonly cniDir: string;
  readonly #options: MultusHostOptions;
  readonly #pods: HostPod[] = [];

  private constructor(
    hosts: TestHosts,
    api: KubeApi,
    options: MultusHostOptions,
  ) {
    this.hosts = hosts;
    this.api = api;
    this.cniDir = `${hosts.directory}/multus`;
    this.kubeconfig = api.writeKubeconfig(hosts.directory);
    this.#options = options;
    this.#addDefinitions(api);
  }

  /** Starts a node without pods. */
  static async start(
    { cniVersion = "1.0.0", transport = "http" }: Partial<MultusHostOptions> =
      {},
  ): Promise<MultusHost> {
    const hosts = TestHosts.create();
    const api = await KubeApi.start({ netns: hosts.host, transport });
    return new MultusHost(hosts, api, { cniVersion, transport });
  }

  /**
   * Starts an additional cluster with the same networks and no pods, whose API server
   * also listens in the node's namespace. The caller stops it.
   *
   * @param name The name of its kubeconfig
   */
  async startCluster(
    name: string,
  ): Promise<{ readonly api: KubeApi; readonly kubeconfig: string }> {
    const api = await KubeApi.start({
      netns: this.hosts.host,
      transport: this.#options.transport,
    });
    this.#addDefinitions(api);
    const { directory } = this.hosts;
    const kubeconfig = api.writeKubeconfig(directory, "token", { file: name });
    return { api, kubeconfig };
  }

  /**
   * Network `blue`: a bridge, and addresses that pods choose; `green`: veth pairs,
   * leases, and a separate table.
   */
  #addDefinitions(api: KubeApi): void {
    api.putNad("default", "blue", {
      cniVersion: this.#options.cniVersion,
      name: "blue",
      type: "bridge",
      bridge: "br-blue",
      capabilities: { ips: true },
      ipam: { type: "static" },
    });
    api.putNad("default", "green", {
      cniVersion: this.#options.cniVersion,
      name: "green",
      plugins: [
        { type: "ptp", ipam: this.hosts.hostLocal("10.20.0.0/16") },
        { type: "sbr" },
      ],
    });
  }

  /**
   * The network of every pod: veth pairs, leases, and limits for pods that request
   * them.
   */
  master(): JsonObject {
    return {
      cniVersion: this.#options.cniVersion,
      name: "pods",
      plugins: [
        {
          type: "ptp",
          ipam: {
            ...this.hosts.hostLocal("10.10.0.0/16"),
            routes: [{ dst: "0.0.0.0/0" }],
          },
        },
        { type: "bandwidth", capabilities: { bandwidth: true } },
      ],
    };
  }

  /** The runtime's configuration. */
  conf(keys: JsonObject = {}): JsonObject {
    return {
      cniVersion: this.#options.cniVersion,
      name: "multus-cni-network",
      type: "multus",
      capabilities: { bandwidth: true },
      kubeconfig: this.kubeconfig,
      cniDir: this.cniDir,
      binDir: BIN,
      confDir: `${this.hosts.directory}/net.d`,
      // The machine might have a daemon.
      daemonSocketDir: `${this.hosts.directory}/run`,
      // Networks of the tests write no state on the machine itself.
      definitionKeys: ["host-local.dataDir", "tuning.dataDir"],
      delegates: [this.master()],
      ...keys,
    };
  }

  /** Adds a pod to the API (or another cluster's API), and its sandbox. */
  addPod(
    name: string,
    options: PodOptions = {},
    api: KubeApi = this.api,
  ): HostPod {
    const pod = new HostPod(name, options);
    this.#pods.push(pod);
    const { uid, annotations } = pod;
    const own = { namespace: "default", name, uid, annotations };
    const metadata = { ...options.metadata, ...own };
    api.putPod({ ...options.object, metadata });
    return pod;
  }

  /** Starts multus for a pod. */
  start(command: string, pod: HostPod, call: HostCall = {}): Spawned {
    const { keys, env, command: [path = `${BIN}/multus`, ...args] = [] } = call;
    return spawnIn(this.hosts.host, {
      path,
      args,
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        CNI_COMMAND: command,
        CNI_CONTAINERID: pod.containerId,
        CNI_NETNS: pod.sandbox.path,
        CNI_IFNAME: "eth0",
        CNI_PATH: BIN,
        CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;" +
          `K8S_POD_NAME=${pod.name};K8S_POD_UID=${pod.uid};` +
          `K8S_POD_INFRA_CONTAINER_ID=${pod.containerId}`,
        ...env,
      },
      stdin: JSON.stringify(this.conf(keys)),
    });
  }

  /** Runs multus for a pod; its output must be a single document or empty. */
  async call(
    command: string,
    pod: HostPod,
    call: HostCall = {},
  ): Promise<HostOutput> {
    const startedAt = performance.now();
    const output = await this.start(command, pod, call).output;
    const ms = performance.now() - startedAt;
    const { stdout } = output;
    const json = stdout === "" ? undefined : JSON.parse(stdout);
    return { ...output, json, ms };
  }

  /** Runs multus for a pod, which must succeed and write nothing to stderr. */
  async succeed(
    command: string,
    pod: HostPod,
    call: HostCall = {},
  ): Promise<HostOutput> {
    const output = await this.call(command, pod, call);
    const { code, stdout, stderr } = output;
    assertEquals([code, stderr], [0, ""], `${command}: ${stdout}`);
    return output;
  }

  /** Lists the names of a pod's interfaces, in order. */
  interfaces(pod: HostPod): string[] {
    return ipJson(pod.sandbox, "link")
      .map(({ ifname }: { ifname: string }) => ifname).sort();
  }

  /** Returns the network status annotation of the API server's pod. */
  // deno-lint-ignore no-explicit-any -- as above
  status(pod: HostPod): any {
    return this.api.networkStatus("default", pod.name);
  }

  /** Lists the requests with a method that concern a pod itself. */
  requestsFor(pod: HostPod, method: string): LoggedRequest[] {
    return this.api.requestsOf(method, new RegExp(`/pods/${pod.name}(/|$)`));
  }

  /** Lists the state: scratch files, and `results/` of libcni. */
  get remembered(): string[] {
    return [
      ...listFiles(this.cniDir),
      ...listFiles(`${this.cniDir}/results`).map((name) => `results/${name}`),
    ];
  }

  /**
   * Lists everything that belongs to a pod: the content of its sandbox, state,
   * leases.
   */
  remainsOf(pod: HostPod): string[] {
    // No container ID in the tests is a part of a different ID.
    return [
      ...pod.listInside(),
      ...this.remembered.filter((name) => name.includes(pod.containerId)),
      ...this.#listLeases(pod.containerId),
    ];
  }

  /** @param containerId The container; any if empty */
  #listLeases(containerId = ""): string[] {
    return ["pods", "green"].flatMap((network) =>
      this.hosts.leases(network)
        .filter((name) => /^\d/.test(name))
        .filter((ip) => {
          const path = `${this.hosts.directory}/leases/${network}/${ip}`;
          // A concurrent pod of the test might have released it.
          const lease = unlessMissing(() => Deno.readTextFileSync(path));
          return lease?.includes(containerId) ?? false;
        })
        .map((ip) => `lease ${network} ${ip}`)
    );
  }

  /**
   * Lists everything that belongs to pods: links of the node except bridges, leases,
   * state, and the content of sandboxes except loopback. A scratch file counts as
   * well.
   */
  remains(): string[] {
    const isOwn = ({ ifname }: { ifname: string }): boolean =>
      !/^(lo|br-.*)$/.test(ifname);
    const links = ipJson(this.hosts.host, "link").filter(isOwn)
      .map(({ ifname }: { ifname: string }) => `link ${ifname}`);
    return [
      ...links,
      ...this.#listLeases(),
      ...this.remembered,
      ...this.#pods.flatMap((pod) => pod.listInside()),
    ];
  }

  /** Removes the node. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.api[Symbol.asyncDispose]();
    for (const pod of this.#pods) pod[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

/** The annotation by which pods choose networks. */
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** Options of a pod. */
export interface PodOptions {
  /** The networks that it requests; an object is encoded as JSON. */
  readonly networks?: string | readonly JsonObject[];
  readonly annotations?: Readonly<Record<string, string>>;
  /** Additional metadata of the API server's object, such as `labels`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Keys of the API server's object, such as `status`. */
  readonly object?: Readonly<Record<string, unknown>>;
}

/** A pod in namespace `default`. */
export class HostPod implements Disposable {
  readonly name: string;
  readonly uid: string;
  readonly containerId: string;
  /** Its network namespace, with its loopback up. */
  readonly sandbox: NetNs = NetNs.create();
  readonly annotations: Readonly<Record<string, string>>;
  #isGone = false;

  /** Creates the sandbox. */
  constructor(name: string, options: PodOptions) {
    const { networks, annotations = {} } = options;
    this.name = name;
    this.uid = `uid-of-${name}`;
    this.containerId = `sandbox-of-${name}`;
    const text = typeof networks === "object"
      ? JSON.stringify(networks)
      : networks;
    this.annotations = {
      ...annotations,
      ...text === undefined ? {} : { [NETWORKS]: text },
    };
    runIn(this.sandbox, "ip", "link", "set", "lo", "up");
  }

  /**
   * Lists the objects that plugins created in the sandbox: links and rules, whose
   * removal also removes addresses and routes.
   */
  listInside(): string[] {
    if (this.#isGone) return [];
    const links = ipJson(this.sandbox, "link")
      .map(({ ifname }: { ifname: string }) => `${this.name}: link ${ifname}`)
      .filter((link: string) => !link.endsWith(" lo"));
    const rules = runIn(this.sandbox, "ip", "rule").trim().split("\n")
      .filter((line) => !/lookup (local|main|default)\s*$/.test(line))
      .map((line) => `${this.name}: rule ${line.trim()}`);
    return [...links, ...rules];
  }

  /** Removes the sandbox with its content. */
  [Symbol.dispose](): void {
    this.#isGone = true;
    this.sandbox[Symbol.dispose]();
  }
}
