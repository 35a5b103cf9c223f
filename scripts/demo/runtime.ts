/**
 * What a container runtime does with a network configuration list: runs the
 * plugins one by one, in order for ADD and CHECK, in reverse for DEL.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { execIn } from "../../testing/exec_in.ts";

/** One plugin's entry in a list. */
export type PluginConf = Readonly<Record<string, unknown>> & {
  readonly type: string;
};

/** A network configuration list. */
export interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConf[];
}

/** One container that is to be attached. */
export interface Container {
  readonly id: string;
  readonly netns: NetNs;
}

/** The part of a printed result that the demo uses. */
export interface PrintedResult {
  readonly interfaces: readonly { name: string; sandbox?: string }[];
  readonly ips: readonly { address: string; gateway: string }[];
}

/** The outcome of a call of a plugin. */
export interface PluginRun {
  readonly type: string;
  readonly milliseconds: number;
  readonly stdout: string;
}

/** Runs the plugins of a list in a node's namespace. */
export class Runtime {
  readonly #node: NetNs;
  readonly #path: string;
  readonly #list: ConfList;

  /**
   * @param node Namespace of the node
   * @param path Directory with the plugins' executables
   */
  constructor(node: NetNs, path: string, list: ConfList) {
    this.#node = node;
    this.#path = path;
    this.#list = list;
  }

  /**
   * Runs one command for one container.
   *
   * @param prevResult The result of ADD, for CHECK and DEL
   * @throws {Error} With the plugin's output if one fails
   */
  run(
    command: "ADD" | "CHECK" | "DEL",
    container: Container,
    prevResult?: PrintedResult,
  ): PluginRun[] {
    const { plugins } = this.#list;
    const order = command === "DEL" ? plugins.toReversed() : plugins;
    let result = prevResult;
    return order.map((plugin) => {
      const run = this.#runPlugin(command, container, {
        ...plugin,
        name: this.#list.name,
        cniVersion: this.#list.cniVersion,
        ...result === undefined ? {} : { prevResult: result },
      });
      if (command === "ADD") result = JSON.parse(run.stdout);
      return run;
    });
  }

  #runPlugin(
    command: string,
    { id, netns }: Container,
    config: PluginConf,
  ): PluginRun {
    const { type } = config;
    const start = performance.now();
    const { code, stdout, stderr } = execIn(this.#node, {
      path: `${this.#path}/${type}`,
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: id,
        CNI_NETNS: netns.path,
        CNI_IFNAME: "eth0",
        CNI_PATH: this.#path,
      },
      stdin: JSON.stringify(config),
    });
    const milliseconds = performance.now() - start;
    if (code !== 0) throw new Error(`${type} ${command}: ${stdout}${stderr}`);
    return { type, milliseconds, stdout };
  }
}
