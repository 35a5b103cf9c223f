/**
 * A plugin under test: its host, and the plugins before it.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Plugin } from "../cni/plugin.ts";
import type { NetConf } from "../cni/config/types.ts";
import { inNetns, NetNs } from "../ffi/netns.ts";
import { NeighborRequests } from "../ffi/rtnl/neighbor.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { QdiscRequests } from "../ffi/rtnl/traffic_control_qdisc.ts";
import { writeSysctl } from "../ffi/sysctl.ts";
import { type Snapshot, snapshot } from "./ip_json.ts";
import { type CallOutput, TestHosts } from "./test_hosts.ts";

/** A plugin's configuration, without `cniVersion`, `name` and `prevResult`. */
export type PluginKeys = Readonly<Record<string, unknown>>;

/** Options of the tests of a plugin. */
export interface ConformOptions {
  /** Creates what ADD expects, such as a link of the host. */
  readonly prepare?: (hosts: TestHosts) => void | Promise<void>;
  /**
   * Returns what the plugin changes apart from links, addresses, routes, rules,
   * qdiscs and files in `hosts.directory`, for comparison.
   */
  readonly state?: (hosts: TestHosts) => unknown;
  /** Steps that may fail without failing ADD, such as `/^RTM_GETLINK/`. */
  readonly optional?: RegExp;
}

/** A host, and the list of plugins on it. */
export class Scene<Config extends NetConf> implements Disposable {
  readonly hosts = TestHosts.create();
  readonly plugin: Plugin<Config>;
  readonly optional: RegExp | undefined;
  readonly #list: readonly PluginKeys[];
  readonly #options: ConformOptions;
  version: string;
  #prevResult: unknown;

  constructor(
    plugin: Plugin<Config>,
    list: (hosts: TestHosts) => readonly PluginKeys[],
    options: ConformOptions,
  ) {
    this.plugin = plugin;
    this.#list = list(this.hosts);
    this.#options = options;
    this.optional = options.optional;
    this.version = plugin.versions.at(-1) ?? "";
    // Otherwise link-local addresses take a second to settle.
    for (const netns of [this.hosts.host, this.hosts.sandbox]) {
      inNetns(netns, () => {
        writeSysctl("net/ipv6/conf/default/accept_dad", "0");
        writeSysctl("net/ipv6/conf/all/accept_dad", "0");
      });
    }
  }

  async prepare(): Promise<void> {
    await this.#options.prepare?.(this.hosts);
  }

  /** Runs the plugins before the tested one. */
  async runBefore(command: "ADD" | "DEL", netns?: NetNs): Promise<void> {
    if (command === "ADD") this.#prevResult = undefined;
    const before = this.#list.slice(0, -1);
    const ordered = command === "ADD" ? before : before.toReversed();
    for (const keys of ordered) {
      const config = this.#configOf(keys);
      const called = String(keys["type"]);
      const sandbox = netns === undefined ? {} : { sandbox: netns };
      const { json, exitCode, stdout } = await this.hosts
        .run(called, command, config, sandbox);
      assertEquals(exitCode, 0, stdout);
      if (command === "ADD") this.#prevResult = json;
    }
  }

  /** Runs the tested plugin. */
  async run(
    command: string,
    more: PluginKeys = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<CallOutput> {
    const config = { ...this.#configOf(this.#list.at(-1) ?? {}), ...more };
    return await this.hosts.run(this.plugin, command, config, { env });
  }

  /** Runs the tested plugin, which must succeed. */
  async succeed(
    command: string,
    more: PluginKeys = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<CallOutput> {
    const output = await this.run(command, more, env);
    assertEquals(
      output.exitCode,
      0,
      `${command} ${this.version}: ${output.stdout}${output.stderr}`,
    );
    return output;
  }

  #configOf(keys: PluginKeys): PluginKeys {
    const prevResult = this.#prevResult;
    return {
      cniVersion: this.version,
      name: "net1",
      ...keys,
      ...prevResult !== undefined && { prevResult },
    };
  }

  /** The state of the host, and with it, of the sandbox. */
  state(isSandboxGone = false): unknown {
    const { hosts } = this;
    const namespaces = isSandboxGone
      ? [hosts.host]
      : [hosts.host, hosts.sandbox];
    return {
      namespaces: namespaces.map((netns) => ({
        ...withoutTransients(snapshot(netns)),
        ...listOthers(netns),
      })),
      files: listFiles(hosts.directory),
      more: this.#options.state?.(hosts),
    };
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
type Printed = any;

/** Drops what the kernel changes by itself: carriers and link-local addresses. */
function withoutTransients({ links, routes, rules }: Printed): Snapshot {
  return {
    links: links.map(
      ({ operstate: _, flags, addr_info, ...link }: Printed) => ({
        ...link,
        isUp: flags.includes("UP"),
        addresses: addr_info.filter(({ scope }: Printed) => scope !== "link"),
      }),
    ),
    routes: routes.filter(({ dst }: Printed) =>
      !/^(fe80|ff00|multicast)/.test(dst)
    ),
    rules,
  };
}

/** Lists permanent neighbours and qdiscs. */
function listOthers(netns: NetNs): { neighbors: unknown; qdiscs: unknown } {
  using rtnl = Rtnl.open(netns.path);
  return {
    neighbors: new NeighborRequests(rtnl.socket).list()
      .filter(({ isPermanent }) => isPermanent),
    qdiscs: new QdiscRequests(rtnl.socket).list(),
  };
}

/** Lists files, without the ones that plugins keep between calls. */
function listFiles(directory: string): string[] {
  return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) =>
    isDirectory
      ? listFiles(`${directory}/${name}`)
      : /lock$|last_reserved_ip/.test(name)
      ? []
      : [`${directory}/${name}`]
  ).sort();
}
