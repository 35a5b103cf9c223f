/**
 * A node with multus whose runtime has a cache, and whose node daemon watches the
 * pods.
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import { AttachmentCache } from "../../../libcni/mod.ts";
import { NodeDaemon } from "../../../tests/_harness/node_daemon.ts";
import { spawnIn } from "../../../tests/_harness/spawn_in.ts";
import { BIN, type HostPod, MultusHost } from "./host.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** The node. */
export class FollowedNode implements AsyncDisposable {
  readonly host: MultusHost;
  /** The node daemon, with its own /var/lib/cni. */
  readonly daemon: NodeDaemon;
  /** The cache of the runtime. */
  readonly cacheDir: string;

  private constructor(host: MultusHost, daemon: NodeDaemon, cacheDir: string) {
    this.host = host;
    this.daemon = daemon;
    this.cacheDir = cacheDir;
  }

  /** Starts a node without pods. */
  static async start(): Promise<FollowedNode> {
    const host = await MultusHost.start();
    const cacheDir = `${host.hosts.directory}/cache`;
    Deno.mkdirSync(cacheDir);
    const script = "mount -t tmpfs none /var/lib && mkdir /var/lib/cni && " +
      `mount --bind ${cacheDir} /var/lib/cni && exec "$@"`;
    const daemon = await NodeDaemon.start(host.hosts, {
      args: [`--kubeconfig=${host.kubeconfig}`, "--node-name=node1"],
      wrapper: ["unshare", "--mount", "sh", "-c", script, "sh"],
    });
    return new FollowedNode(host, daemon, cacheDir);
  }

  /**
   * Adds a pod to the runtime's cache.
   *
   * @param config The configuration of the runtime's network; without multus by
   * default
   */
  addPod(
    name: string,
    networks: string,
    config: JsonObject = { name: "pods", plugins: [] },
  ): HostPod {
    const pod = this.host.addPod(name, { networks });
    new AttachmentCache(this.cacheDir).writeAttachment({
      network: "pods",
      containerId: pod.containerId,
      ifName: "eth0",
      netns: pod.sandbox.path,
      config: new TextEncoder().encode(JSON.stringify(config)),
      cniArgs: [["K8S_POD_NAMESPACE", "default"], ["K8S_POD_NAME", name]],
      capabilityArgs: {},
    }, { cniVersion: "1.0.0", ips: [] });
    return pod;
  }

  /** Makes the kubelet report a pod, optionally with different annotations. */
  report(
    { name, annotations }: HostPod,
    podStatus: JsonObject,
    more: { readonly spec?: JsonObject; readonly networks?: string } = {},
  ): void {
    const { api } = this.host;
    const { metadata } = api.find("pods", "default", name) ?? {};
    api.putPod({
      ...more.spec && { spec: { nodeName: "node1", ...more.spec } },
      metadata: {
        ...metadata,
        namespace: "default",
        name,
        annotations: {
          ...annotations,
          ...metadata?.annotations,
          ...more.networks !== undefined &&
            { "k8s.v1.cni.cncf.io/networks": more.networks },
        },
      },
      status: podStatus,
    });
  }

  /** Returns the address that multus has reported for a pod. */
  addressOf(pod: HostPod): string {
    return this.host.status(pod)[0].ips[0];
  }

  /** Runs the tool with the socket of this daemon. */
  async cni(...args: string[]): Promise<string> {
    const { hosts } = this.host;
    const script = "mount -t tmpfs none /run && mkdir /run/cni && " +
      `mount --bind ${this.daemon.directory} /run/cni && exec "$@"`;
    const { stdout, stderr } = await spawnIn(hosts.host, {
      path: "/usr/bin/unshare",
      args: ["--mount", "sh", "-c", script, "sh", `${BIN}/cni`, ...args],
      env: { PATH },
      stdin: "",
    }).output;
    return stdout + stderr;
  }

  /** Lists the warning events of pods. */
  get warnings(): string[] {
    return this.host.api.events.flatMap((event) => {
      const { reason, message, involvedObject } = event as JsonObject;
      const { name } = involvedObject as JsonObject;
      return reason === "NetworkMissing" ? [`${name}: ${message}`] : [];
    }).sort();
  }

  /** Stops the daemon, and removes the node. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}
