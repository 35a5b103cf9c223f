/**
 * A node with shell scripts as plugins, which record their calls.
 *
 * ```ts ignore
 * using node = new TestNode();
 * node.addNetwork("10-net1.conflist", ["a"]);
 * await node.network.setUpPod(node.pod());
 * assertEquals(node.plugins.story, ["loopback ADD", "a ADD"]);
 * ```
 *
 * @module
 */

import {
  type EndedOperation,
  NodeNetwork,
  type NodeNetworkOptions,
  type Pod,
} from "./mod.ts";
import { ConfDirectory } from "../tests/_harness/conf_directory.ts";
import {
  type Answers,
  RecordingPlugins,
} from "../tests/_harness/recording_plugins.ts";

/** A script that supports all versions. */
const VERSION = `echo '${
  JSON.stringify({
    cniVersion: "1.1.0",
    supportedVersions: [
      "0.1.0",
      "0.2.0",
      "0.3.0",
      "0.3.1",
      "0.4.0",
      "1.0.0",
      "1.1.0",
    ],
  })
}'`;

/** A script that prints a result with an address of `eth0`. */
export const ADD = `echo '${
  JSON.stringify({
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", sandbox: "/run/netns/c1" }],
    ips: [{ interface: 0, address: "10.1.2.3/24" }],
  })
}'`;

/** Plugins, their configurations and a node that has them; all gone in the end. */
export class TestNode implements Disposable {
  readonly plugins = new RecordingPlugins();
  readonly conf = new ConfDirectory();
  /** Operations that have ended. */
  readonly operations: EndedOperation[] = [];
  readonly network: NodeNetwork;

  constructor(options: Partial<NodeNetworkOptions> = {}) {
    this.addPlugin("loopback");
    this.network = this.restart(options);
  }

  /** Creates another node on the same files, as after a restart of the agent. */
  restart(options: Partial<NodeNetworkOptions> = {}): NodeNetwork {
    return new NodeNetwork({
      confDir: this.conf.path,
      pluginDirs: [this.plugins.directory.path],
      cacheDir: this.plugins.cacheDir,
      env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin" },
      onStderr: (text) => void (this.plugins.logged += text),
      onOperation: (operation) => void this.operations.push(operation),
      ...options,
    });
  }

  /** Adds a plugin that succeeds, except for the given answers. */
  addPlugin(type: string, answers: Answers = {}): void {
    this.plugins.add(type, { VERSION, ADD, ...answers });
  }

  /** Adds a network, named `net1` and of 1.1.0 unless told otherwise, with its plugins. */
  addNetwork(
    file: string,
    types: readonly (string | Readonly<Record<string, unknown>>)[],
    keys: Readonly<Record<string, unknown>> = {},
  ): void {
    const plugins = types.map((type) =>
      typeof type === "string" ? { type } : type
    );
    this.writeConf(file, {
      name: "net1",
      cniVersion: "1.1.0",
      ...keys,
      plugins,
    });
  }

  /** Puts a file in place atomically, as installers do. */
  writeConf(file: string, content: string | object): void {
    const path = this.conf.add(`${file}.new`, content);
    Deno.renameSync(path, `${this.conf.path}/${file}`);
  }

  /** Describes a pod without its namespace. */
  pod(keys: Partial<Pod> = {}): Pod {
    return {
      namespace: "default",
      name: "pod1",
      uid: "uid1",
      containerId: "c1",
      netns: "/run/netns/no-such-namespace",
      ...keys,
    };
  }

  /** The commands that plugins got, without VERSION. */
  get story(): string[] {
    return this.plugins.story.filter((call) => !call.endsWith("VERSION"));
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.plugins[Symbol.dispose]();
    this.conf[Symbol.dispose]();
  }
}
