/**
 * A temporary host on which a plugin is called, with one configuration unless a
 * call says otherwise.
 *
 * ```ts ignore
 * using scene = new PluginScene("bridge", (hosts) => bridgeConfig(hosts));
 * const { json: prevResult } = await scene.succeed("ADD");
 * await scene.succeed("CHECK", { prevResult });
 * ```
 *
 * @module
 */

import type { Plugin } from "../../cni/plugin.ts";
import type { NetConf } from "../../cni/config/types.ts";
import { assertFailure, assertSuccess } from "./call_outcome.ts";
import { callAs, type Who } from "./parity.ts";
import { stockOf } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";

/** A configuration, or keys of one. */
export type Keys = Readonly<Record<string, unknown>>;

/** Optional input of a call. */
export interface SceneCall extends CallOptions {
  /** The owner of the called plugin; ours if undefined. */
  readonly who?: Who;
}

/** A host, and calls of a plugin on it. */
export class PluginScene<Config extends NetConf = NetConf>
  implements Disposable {
  readonly #plugin: string | Plugin<Config>;
  readonly #stateOf: (hosts: TestHosts) => unknown;
  /** The host and its sandbox. */
  readonly hosts: TestHosts = TestHosts.create();
  /** The defaults of calls. */
  readonly config: Keys;

  /**
   * Creates the host.
   *
   * @param plugin A type, or what makes a plugin for that host
   * @param makeConfig Returns the configuration on that host
   * @param stateOf Reads all that an attachment changes
   */
  constructor(
    plugin: string | ((hosts: TestHosts) => Plugin<Config>),
    makeConfig: (hosts: TestHosts) => Keys,
    stateOf: (hosts: TestHosts) => unknown = stockAndLeases,
  ) {
    this.#stateOf = stateOf;
    this.#plugin = typeof plugin === "string" ? plugin : plugin(this.hosts);
    this.config = makeConfig(this.hosts);
  }

  /** All that an attachment changes. */
  get state(): unknown {
    return this.#stateOf(this.hosts);
  }

  /** Runs a command, with more keys or other ones. */
  run(
    command: string,
    extras: Keys = {},
    { who = "ours", ...options }: SceneCall = {},
  ): Promise<CallOutput> {
    const config = { ...this.config, ...extras };
    const type = String(config["type"]);
    return who === "ours"
      ? this.hosts.run(this.#plugin, command, config, options)
      : callAs(who, this.hosts, { type, command, config }, options);
  }

  /** Runs a command that must succeed, and have nothing to say on stderr. */
  async succeed(
    command: string,
    extras: Keys = {},
    options: SceneCall = {},
  ): Promise<CallOutput> {
    const output = await this.run(command, extras, options);
    assertSuccess(output);
    return output;
  }

  /** Runs a command that must fail with a code and a text. */
  async fail(
    command: string,
    [code, text]: readonly [code: number, text: string],
    extras: Keys = {},
    options: SceneCall = {},
  ): Promise<void> {
    assertFailure(await this.run(command, extras, options), code, text);
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

function stockAndLeases(hosts: TestHosts): unknown {
  return [stockOf(hosts), hosts.leases()];
}
