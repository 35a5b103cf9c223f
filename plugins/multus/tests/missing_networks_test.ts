/**
 * Pods that run without networks that they request: what the node daemon and the
 * tool say, as executables.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { AttachmentCache } from "../../../libcni/mod.ts";
import { until } from "../../../tests/_harness/eventually.ts";
import { NodeDaemon } from "../../../tests/_harness/node_daemon.ts";
import { spawnIn } from "../../../tests/_harness/spawn_in.ts";
import { BIN, type HostPod, hostTest, MultusHost } from "../testing/host.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** A node whose runtime has a cache, and a daemon that follows the pods. */
class Scene implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: NodeDaemon;
  readonly cacheDir: string;

  private constructor(host: MultusHost, daemon: NodeDaemon, cacheDir: string) {
    this.host = host;
    this.daemon = daemon;
    this.cacheDir = cacheDir;
  }

  static async start(): Promise<Scene> {
    const host = await MultusHost.start();
    const cacheDir = `${host.hosts.directory}/cache`;
    Deno.mkdirSync(cacheDir);
    const script = "mount -t tmpfs none /var/lib && mkdir /var/lib/cni && " +
      `mount --bind ${cacheDir} /var/lib/cni && exec "$@"`;
    const daemon = await NodeDaemon.start(host.hosts, {
      args: [`--kubeconfig=${host.kubeconfig}`, "--node-name=node1"],
      wrapper: ["unshare", "--mount", "sh", "-c", script, "sh"],
    });
    return new Scene(host, daemon, cacheDir);
  }

  /** Adds a pod, as the runtime caches it. */
  addPod(name: string, networks: string): HostPod {
    const pod = this.host.addPod(name, { networks });
    new AttachmentCache(this.cacheDir).writeAttachment({
      network: "pods",
      containerId: pod.containerId,
      ifName: "eth0",
      netns: pod.sandbox.path,
      config: new TextEncoder().encode('{"name":"pods","plugins":[]}'),
      cniArgs: [["K8S_POD_NAMESPACE", "default"], ["K8S_POD_NAME", name]],
      capabilityArgs: {},
    }, { cniVersion: "1.0.0", ips: [] });
    return pod;
  }

  /** Has the kubelet report a pod, perhaps with other annotations. */
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

  /** Runs the tool where it finds this daemon. */
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

  /** Lists the warnings at pods. */
  get warnings(): string[] {
    return this.host.api.events.flatMap((event) => {
      const { reason, message, involvedObject } = event as JsonObject;
      const { name } = involvedObject as JsonObject;
      return reason === "NetworkMissing" ? [`${name}: ${message}`] : [];
    }).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

hostTest(
  "the daemon, cni list and cni daemon status name pods without their networks",
  async () => {
    await using scene = await Scene.start();
    const { host } = scene;
    const running = (podIP: string): JsonObject => ({
      phase: "Running",
      podIP,
    });
    const web = scene.addPod("web", "green");
    const partly = scene.addPod("partly", "green");
    for (const pod of [web, partly]) {
      await host.succeed("ADD", pod);
      const networks = pod === partly ? "green,blue" : "green";
      scene.report(pod, running(scene.addressOf(pod)), { networks });
    }
    // After a reboot without multus it has the status of its earlier sandbox.
    const boot = scene.addPod("boot", "green");
    await host.succeed("ADD", boot);
    await host.succeed("DEL", boot);
    scene.report(boot, running("10.10.99.9"));
    // multus was away.
    scene.report(scene.addPod("lost", "green,green@x0"), running("10.10.0.77"));
    // These lack nothing, or nobody knows yet.
    scene.report(scene.addPod("node", "green"), running("192.0.2.1"), {
      spec: { hostNetwork: true },
    });
    const ended = { phase: "Succeeded", podIP: "10.10.0.78" };
    scene.report(scene.addPod("done", "green"), ended);
    scene.report(scene.addPod("new", "green"), { phase: "Pending" });

    // Each is seen in two looks, which are 30 seconds apart.
    await until("three are reported", () => scene.warnings.length >= 3);
    const all =
      ". To attach what it requests, delete the pod and create it again";
    assertEquals(scene.warnings, [
      `boot: The pod runs without default/green${all}`,
      `lost: The pod runs without default/green, default/green${all}`,
      `partly: The pod runs without default/blue${all}`,
    ]);
    const { body } = await scene.daemon.ask("/metrics");
    assertMatch(body, /^cni_daemon_pods_missing_networks 3$/m);

    const status = await scene.cni("daemon", "status");
    assertMatch(status, /3 pods, such as default\/\w+ run without a network/);
    const flags = ["--cache-dir", scene.cacheDir, "--conf-dir", scene.cacheDir];
    const rows: JsonObject[] = JSON.parse(
      await scene.cni("list", "--json", ...flags),
    );
    assertEquals(
      Object.fromEntries(
        rows.map(({ pod = "", missingNetworks }) => [pod, missingNetworks]),
      ),
      {
        "default/boot": ["default/green"],
        "default/done": [],
        "default/lost": ["default/green", "default/green"],
        "default/new": [],
        "default/node": [],
        "default/partly": ["default/blue"],
        "default/web": [],
      },
    );
    assertMatch(await scene.cni("list", ...flags), /MISSING .*default\/blue/s);
    const found = await scene.cni("doctor", "--json", ...flags);
    assertEquals(
      JSON.parse(found).findings
        .filter(({ code }: JsonObject) => code === "CNI0709").length > 0,
      true,
      found,
    );
  },
);
