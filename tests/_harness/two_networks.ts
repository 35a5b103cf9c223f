/**
 * A container with an interface on each of two networks, and a router on each:
 * for plugins that are chained after those which made the interfaces.
 *
 * ```ts ignore
 * using networks = new TwoNetworks();
 * networks.ip("route add default via 192.168.1.1 metric 7");
 * await networks.run("sbr", "ADD", { prevResult: networks.result() });
 * assertEquals(networks.rules(), ["32765: from 192.168.1.209 lookup 100"]);
 * ```
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { Cidr } from "../../net/cidr.ts";
import { batchIn, printRules6, runIn } from "../../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";

/** The addresses and routes of the interfaces, in the syntax of `ip`. */
export const ETH0 = [
  "address add 10.0.0.2/24 dev eth0",
  "route add 10.2.0.0/24 via 10.0.0.5",
  "route add default via 10.0.0.1",
];
/** As {@linkcode ETH0}, of the interface that a plugin is called for. */
export const NET1 = [
  "address add 192.168.1.209/24 dev net1",
  "route add 192.168.2.0/24 via 192.168.1.2",
];
/** IPv6 of both interfaces, link-local addresses included. */
export const IPV6 = [
  "address add fe80::2/64 dev eth0 nodad",
  "address add 2001:db8:a::2/64 dev eth0 nodad",
  "route add default via 2001:db8:a::1",
  "address add fe80::209/64 dev net1 nodad",
  "address add 2001:db8:1::209/64 dev net1 nodad",
  "route add 2001:db8:2::/48 via 2001:db8:1::2",
];

/** One address of a result. */
export interface ListedIp {
  readonly address: string;
  readonly gateway?: string;
  readonly interface?: number;
}

/** The container, its routers, and calls of plugins for `net1`. */
export class TwoNetworks implements Disposable {
  /** Where it is. */
  readonly hosts: TestHosts = TestHosts.create();
  /** The container. */
  readonly sandbox: NetNs = this.hosts.sandbox;
  /** At the other ends of the veth pairs, where `lan` has `fe80::1`. */
  readonly routers: Readonly<Record<"eth0" | "net1", NetNs>>;

  /**
   * Connects the container.
   *
   * @param lines Arguments of `ip` that set up the interfaces
   */
  constructor(lines: readonly string[] = [...ETH0, ...NET1]) {
    withoutLinkLocal(this.sandbox);
    this.routers = { eth0: this.#connect("eth0"), net1: this.#connect("net1") };
    this.ip(...lines);
  }

  /** Adds a veth pair to a new namespace, where its end is called `lan`. */
  #connect(name: string): NetNs {
    const router = this.hosts.addNetns();
    withoutLinkLocal(router);
    using sandbox = Rtnl.open(this.sandbox.path);
    using rtnl = Rtnl.open(router.path);
    const peer = { netns: rtnl.netns, name: "lan" };
    const { linkIndex = 0 } = sandbox.link.addVeth({ name, peer });
    rtnl.link.set(linkIndex, { isUp: true });
    const address = Cidr.parse("fe80::1/64");
    rtnl.address.add({ ifindex: linkIndex, address });
    return router;
  }

  /** Runs command lines of `ip` in the container, those with options last. */
  ip(...lines: readonly string[]): void {
    const hasOptions = (line: string): boolean => line.startsWith("-");
    const plain = lines.filter((line) => !hasOptions(line));
    if (plain.length > 0) batchIn(this.sandbox, "ip", [], plain);
    for (const line of lines.filter(hasOptions)) {
      runIn(this.sandbox, "ip", ...line.split(" "));
    }
  }

  /**
   * Returns a result that lists addresses of `net1`, in the version of the
   * configuration.
   */
  result(
    ips: readonly ListedIp[] = [
      { address: "192.168.1.209/24", gateway: "192.168.1.1", interface: 0 },
    ],
  ): Record<string, unknown> {
    const interfaces = [{ name: "net1", sandbox: this.sandbox.path }];
    return { interfaces, ips };
  }

  /** Runs a plugin of this project for `net1`. */
  run(
    type: string,
    command: string,
    keys: Readonly<Record<string, unknown>>,
    env: Environment = {},
  ): Promise<CallOutput> {
    const config = { cniVersion: "1.0.0", name: "network", type, ...keys };
    return this.hosts.run(type, command, config, { ifName: "net1", env });
  }

  /** Lists the rules that the kernel did not make. */
  rules(): string[] {
    return rulesAmong(this.#listAll());
  }

  /** Lists the routes of all tables, except the kernel's own in table local. */
  routes(): string[] {
    return routesAmong(this.#listAll());
  }

  /** Lists everything that decides where packets go. */
  state(): string[] {
    const lines = this.#listAll();
    return [...rulesAmong(lines), ...routesAmong(lines)];
  }

  /** Lists rules and routes of both families, by as few processes as can be. */
  #listAll(): string[] {
    const commands = ["rule", "route show table all"];
    const both = batchIn(this.sandbox, "ip", ["-o"], commands) +
      printRules6(this.sandbox, ["-o"]);
    return both.split("\n").map((line) => line.trim()).filter((line) =>
      line !== ""
    );
  }

  /** Removes everything, and fails if a descriptor was left open. */
  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

function rulesAmong(lines: readonly string[]): string[] {
  return lines.filter(isRule).map((line) => line.replace("\t", " "))
    .filter((line) => !/lookup (local|main|default)$/.test(line));
}

function routesAmong(lines: readonly string[]): string[] {
  return lines.filter((line) => !isRule(line))
    .filter((line) => !/ table local /.test(line))
    .map((line) => line.replace(" pref medium", "").replaceAll(/ *\\\t/g, " "));
}

/** Rules begin with their priority. */
function isRule(line: string): boolean {
  return /^\d+:\t/.test(line);
}

/** Link-local addresses and their routes would come when they like. */
function withoutLinkLocal(netns: NetNs): void {
  const key = "net/ipv6/conf/default/addr_gen_mode";
  inNetns(netns, () => writeSysctl(key, "1"));
}
