/**
 * A host on which portmap is called for a container that needs no link: its
 * rules are what is looked at.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../../../ffi/netns.ts";
import { portmap } from "../plugin.ts";
import { runIn } from "../../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../../testing/test_hosts.ts";
import { callAs, type Who } from "../../../tests/_harness/parity.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";

/** The mappings that the Go plugin's own tests have. */
export const SAMPLE: readonly Keys[] = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 8081, containerPort: 80, protocol: "tcp" },
  { hostPort: 8080, containerPort: 81, protocol: "udp" },
  { hostPort: 8082, containerPort: 82, protocol: "udp" },
  ...[
    [8083, "192.168.0.2"],
    [8084, "0.0.0.0"],
    [8085, "2001:db8:a::1"],
    [8086, "::"],
  ].map(([hostPort, hostIP]) => ({
    hostPort,
    containerPort: Number(hostPort) - 8000,
    protocol: "tcp",
    hostIP,
  })),
];

/** Returns keys with one mapping of TCP. */
export function onePort(hostPort: number, containerPort = 80): Keys {
  return withPorts([{ hostPort, containerPort, protocol: "tcp" }]);
}

/** Returns keys with these mappings. */
export function withPorts(portMappings: readonly Keys[]): Keys {
  return { runtimeConfig: { portMappings } };
}

/** Options of a call: the plugin's owner, and the container's addresses. */
export interface MappedCall extends CallOptions {
  /** Ours if undefined. */
  readonly who?: Who;
  /** With prefix lengths; one of each family if undefined. */
  readonly addresses?: readonly string[] | undefined;
}

/** The host. */
export class MappedPorts implements Disposable {
  /** The namespaces. */
  readonly hosts: TestHosts = TestHosts.create();
  readonly #keys: Keys;

  /** @param keys Of all calls */
  constructor(keys: Keys = {}) {
    this.#keys = keys;
  }

  /** Returns the configuration of a call. */
  configOf(
    keys: Keys = {},
    { addresses, ...options }: MappedCall = {},
  ): Keys {
    const { ifName = "eth0", sandbox = this.hosts.sandbox } = options;
    return {
      cniVersion: "1.0.0",
      name: "net1",
      type: "portmap",
      prevResult: {
        cniVersion: "1.0.0",
        interfaces: [
          { name: "veth0" },
          { name: ifName, sandbox: sandbox.path },
        ],
        ips: (addresses ?? ["10.1.2.5/24", "2001:db8:1::5/64"])
          .map((address) => ({ address, interface: 1 })),
      },
      ...onePort(8080),
      ...this.#keys,
      ...keys,
    };
  }

  /** Runs a command of portmap. */
  run(
    command: string,
    keys: Keys = {},
    { who = "ours", addresses, ...options }: MappedCall = {},
  ): Promise<CallOutput> {
    const config = this.configOf(keys, { addresses, ...options });
    return who === "ours"
      ? this.hosts.run(portmap, command, config, options)
      : callAs(who, this.hosts, { type: "portmap", command, config }, options);
  }

  /** Runs a command that must succeed. */
  async succeed(
    command: string,
    keys: Keys = {},
    options: MappedCall = {},
  ): Promise<CallOutput> {
    const output = await this.run(command, keys, options);
    assertEquals(output.exitCode, 0, output.stdout + output.stderr);
    return output;
  }

  /** The table of the nftables backend as `nft` shows it; "" if it does not exist. */
  get table(): string {
    return portTableOf(this.hosts.host);
  }

  /**
   * Lists the rules of iptables-nft in table nat by chains; the rules of each
   * family begin with its number.
   *
   * @param suffix `-legacy` for the legacy variant
   */
  rules(suffix = ""): string[] {
    const families = [["4", "iptables"], ["6", "ip6tables"]];
    return families.flatMap(([family, program]) => {
      const args = [`${program}${suffix}`, "-t", "nat", "-S"] as const;
      return runIn(this.hosts.host, ...args).split("\n")
        .filter((line) => line.startsWith("-A"))
        .map((line) => `${family} ${line}`);
    }).sort((left, right) => {
      // Stable: the order of rules within a chain matters.
      const [one = "", other = ""] = [left, right]
        .map((line) => line.split(" ").slice(0, 3).join(" "));
      return one < other ? -1 : one > other ? 1 : 0;
    });
  }

  /** Lists the rules of containers, without those that all share. */
  containerRules(suffix = ""): string[] {
    return this.rules(suffix).filter((rule) => /CNI-[DS]N-/.test(rule));
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Returns portmap's table of nftables as `nft` shows it; "" if it does not exist. */
export function portTableOf(host: NetNs): string {
  return runIn(host, "nft", "list", "ruleset").split(/^(?=table )/m)
    .find((text) => text.startsWith("table inet cni_portmap ")) ?? "";
}

/**
 * Lists the elements of portmap's sets and maps as `SET: KEY : VALUE`, without
 * comments.
 */
export function portElementsOf(host: NetNs): string[] {
  const sets = portTableOf(host).matchAll(
    /(?:map|set) (\S+) \{[^}]*?elements = \{([^}]*)\}/g,
  );
  return [...sets].flatMap(([, name = "", elements = ""]) =>
    elements.replaceAll(/ comment "[^"]*"/g, "").split(",")
      .map((element) => `${name}: ${element.trim()}`)
  ).sort();
}
