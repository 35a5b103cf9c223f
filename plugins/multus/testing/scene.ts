/**
 * multus in this process, with a cluster, and with scripts as delegates, which record
 * their calls.
 *
 * ```ts ignore
 * await using scene = await MultusScene.start("1.0.0");
 * scene.addPlugin("weave-net", "1.1.1.2/24");
 * await scene.run("ADD", { delegates: [scene.conf("weave1", "weave-net")] });
 * assertEquals(scene.story, ["weave-net ADD eth0"]);
 * ```
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import type { Row } from "../../../tests/_harness/conformance.ts";
import { KubeApi } from "../../../kube/testing/kube_api.ts";
import {
  type Answers,
  type PluginCall,
  RecordingPlugins,
} from "../../../tests/_harness/recording_plugins.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../../testing/test_hosts.ts";

/** The versions with which the rows are run. */
const VERSIONS = ["0.2.0", "0.3.1", "0.4.0", "1.0.0"] as const;

/** Time limit for closed connections to disappear, in milliseconds. */
const SETTLING_MS = 15_000;

/** The container of all calls. */
export const CONTAINER = "123456789";

/** The test of a row with a version of the configuration. */
export type VersionRow = (cniVersion: string) => Promise<void>;

/** Builds a row for each version. */
export function eachVersion(
  rows: Readonly<Record<string, VersionRow>>,
  versions: readonly string[] = VERSIONS,
): Record<string, Row> {
  const all = Object.entries(rows).flatMap(([name, run]) =>
    versions.map((version): [string, Row] => [
      `${name} (${version})`,
      () => run(version),
    ])
  );
  return Object.fromEntries(all);
}

/** Builds a result with a single address, in a version. */
export function resultOf(cniVersion: string, address: string): JsonObject {
  if (cniVersion === "0.2.0") return { cniVersion, ip4: { ip: address } };
  const version = cniVersion.startsWith("0.") ? { version: "4" } : {};
  return { cniVersion, ips: [{ ...version, address }] };
}

/** A node with a container, and a cluster. */
export class MultusScene implements AsyncDisposable {
  /** The node. */
  readonly hosts: TestHosts;
  /** The delegates. */
  readonly plugins: RecordingPlugins = new RecordingPlugins();
  /** The state of multus. */
  readonly cniDir: string;
  /** The cluster. */
  readonly api: KubeApi;
  /** The kubeconfig of the cluster. */
  readonly kubeconfig: string;
  readonly #version: string;
  readonly #sockets: number;

  private constructor(
    hosts: TestHosts,
    api: KubeApi,
    { cniVersion, sockets }: { cniVersion: string; sockets: number },
  ) {
    this.hosts = hosts;
    this.api = api;
    this.#sockets = sockets;
    this.cniDir = `${hosts.directory}/multus`;
    this.kubeconfig = api.writeKubeconfig(this.hosts.directory);
    this.#version = cniVersion;
  }

  /**
   * Starts an empty cluster.
   *
   * @param cniVersion The version of all configurations
   */
  static async start(cniVersion = "1.0.0"): Promise<MultusScene> {
    // First, because it requires that all descriptors are closed at the end.
    const hosts = TestHosts.create();
    const sockets = countSockets();
    const api = await KubeApi.start();
    return new MultusScene(hosts, api, { cniVersion, sockets });
  }

  /** Adds a plugin; ADD returns the address, if given. */
  addPlugin(type: string, address?: string, answers: Answers = {}): void {
    const result = address === undefined
      ? { cniVersion: this.#version }
      : resultOf(this.#version, address);
    const ADD = `echo '${JSON.stringify(result)}'`;
    this.plugins.add(type, { ADD, ...answers });
  }

  /** Writes the configuration of a single plugin. */
  conf(name: string, type: string, keys: JsonObject = {}): JsonObject {
    return { name, type, cniVersion: this.#version, ...keys };
  }

  /** Adds a network, and a plugin of the same name. */
  addNetwork(namespace: string, name: string, address: string): void {
    this.addPlugin(name, address);
    this.api.putNad(namespace, name, this.conf(name, name));
  }

  /**
   * Adds pod `test/testpod` with UID `testUID`.
   *
   * @param networks Its networks annotation; none if undefined
   */
  putPod(networks?: string, annotations: Record<string, string> = {}): void {
    const chosen = networks === undefined
      ? {}
      : { "k8s.v1.cni.cncf.io/networks": networks };
    this.api.putPod({
      metadata: {
        namespace: "test",
        name: "testpod",
        uid: "testUID",
        annotations: { ...annotations, ...chosen },
      },
    });
  }

  /** Calls multus without a cluster. */
  run(
    command: string,
    keys: JsonObject,
    { env, ...options }: CallOptions = {},
  ): Promise<CallOutput> {
    const { path } = this.plugins.directory;
    const conf = this.conf("node-cni-network", "multus", {
      cniDir: this.cniDir,
      binDir: path,
      confDir: `${this.hosts.directory}/net.d`,
      // The machine might have a daemon.
      daemonSocketDir: `${this.hosts.directory}/run`,
      ...keys,
    });
    return this.hosts.run("multus", command, conf, {
      containerId: CONTAINER,
      env: { CNI_PATH: path, ...env },
      ...options,
    });
  }

  /**
   * Calls multus for the pod.
   *
   * @param uid The UID that the runtime passes
   */
  runForPod(
    command: string,
    keys: JsonObject,
    uid = "",
    options: CallOptions = {},
  ): Promise<CallOutput> {
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;" +
      `K8S_POD_NAME=testpod${uid && `;K8S_POD_UID=${uid}`}`;
    return this.run(command, { kubeconfig: this.kubeconfig, ...keys }, {
      ...options,
      env: { CNI_ARGS: args, ...options.env },
    });
  }

  /** Lists the calls of plugins, such as `weave-net ADD eth0`. */
  get story(): string[] {
    return this.plugins.calls.map(({ type, command, ifName }) =>
      [type, command, ifName].join(" ").trimEnd()
    );
  }

  /** Returns the first call of a plugin with a command. */
  call(type: string, command: string): PluginCall | undefined {
    return this.plugins.calls
      .find((call) => call.type === type && call.command === command);
  }

  /** Path of the scratch file. */
  get scratchFile(): string {
    return `${this.cniDir}/${CONTAINER}`;
  }

  /** Lists the state: scratch files, and `results/` of libcni. */
  get remembered(): string[] {
    return [
      ...listFiles(this.cniDir),
      ...listFiles(`${this.cniDir}/results`).map((name) => `results/${name}`),
    ];
  }

  /** The sockets of `fetch` are closed soon after its client. */
  async #waitForSockets(): Promise<void> {
    const endMs = performance.now() + SETTLING_MS;
    while (countSockets() > this.#sockets && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  /** Stops the cluster, and removes everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.api[Symbol.asyncDispose]();
    await this.#waitForSockets();
    this.plugins[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

/** Lists the files of a directory; empty if it does not exist. */
export function listFiles(directory: string): string[] {
  try {
    return [...Deno.readDirSync(directory)].filter(({ isFile }) => isFile)
      .map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function countSockets(): number {
  const directory = "/proc/self/fd";
  return [...Deno.readDirSync(directory)]
    .filter(({ name }) => isSocket(`${directory}/${name}`)).length;
}

function isSocket(path: string): boolean {
  try {
    return Deno.readLinkSync(path).startsWith("socket:");
  } catch {
    return false; // the descriptor with which the directory is read
  }
}
