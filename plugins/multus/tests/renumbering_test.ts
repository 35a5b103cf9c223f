/**
 * Networks that change the addresses of running pods, with radvd, Debian's DHCPv6
 * server, and the node daemon as an executable.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { allOf } from "../../../testing/capabilities.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import {
  areOf,
  needsDhcpd,
  needsRadvd,
  RouterNet,
} from "../../../tests/_harness/router_net.ts";
import { TestDaemon } from "../../../ipam/dhcp/testing.ts";
import { FollowedNode } from "../testing/followed_node.ts";
import { type HostCall, type HostPod, hostTest } from "../testing/host.ts";

/** The router's lifetimes: so long an address stays that it no longer advertises. */
const SECONDS = 30;
const LIMIT_MS = 1000 * SECONDS + 30_000;

/** Definitions may name leases of the test, and the socket of its DHCP daemon. */
const CALL: HostCall = {
  keys: { definitionKeys: ["host-local.dataDir", "dhcp.daemonSocketPath"] },
};

/** A node, and a router beyond one of its links. */
class Scene implements AsyncDisposable {
  readonly node: FollowedNode;
  readonly net: RouterNet;
  #pod: HostPod | undefined;

  private constructor(node: FollowedNode) {
    this.node = node;
    this.net = new RouterNet("bridge", node.host.hosts);
  }

  static async start(): Promise<Scene> {
    return new Scene(await FollowedNode.start());
  }

  /** Attaches a pod to a network of the router, besides `pods`. */
  async attach(ipam: JsonObject): Promise<void> {
    const { host } = this.node;
    host.api.putNad("default", "lan", {
      cniVersion: "1.0.0",
      name: "lan",
      type: "bridge",
      bridge: "br0",
      ipam,
    });
    this.#pod = this.node.addPod("web", "lan", {
      cniVersion: "1.0.0",
      name: "multus-cni-network",
      plugins: [host.conf()],
    });
    await host.succeed("ADD", this.#pod, CALL);
  }

  async detach(): Promise<void> {
    if (this.#pod) await this.node.host.succeed("DEL", this.#pod, CALL);
  }

  #entry(index: number): JsonObject {
    return this.#pod === undefined
      ? {}
      : this.node.host.status(this.#pod)[index];
  }

  /** The status of the cluster's own network. */
  get master(): JsonObject {
    return this.#entry(0);
  }

  /** The status of the router's. */
  get lan(): JsonObject {
    return this.#entry(1);
  }

  /** Waits until the status has one address for each prefix, and no other. */
  async has(...prefixes: string[]): Promise<void> {
    const list = (): string[] => (this.lan["ips"] ?? []) as string[];
    await eventually(
      `the status has addresses of ${prefixes.join(" and ")}`,
      () => areOf(list(), prefixes),
      () => `${list().join(" ")}: ${this.node.daemon.log}`,
      LIMIT_MS,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.net[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }
}

function prefix(network: number, seconds = SECONDS): string {
  return `prefix 2001:db8:${network}::/64 {
    AdvValidLifetime ${seconds}; AdvPreferredLifetime ${seconds - 10}; };`;
}

hostTest(
  "the status of a pod follows a router that renumbers or stops",
  needsRadvd,
  async () => {
    await using scene = await Scene.start();
    const { net, node } = scene;
    await net.advertise(`AdvDefaultLifetime ${SECONDS}; ${prefix(1)}`);
    await scene.attach({ type: "slaac", timeoutSeconds: 60 });
    await scene.has("2001:db8:1:");
    const { master, lan: { mac = "", gateway } } = scene;
    await net.advertise(`AdvDefaultLifetime ${SECONDS}; ${prefix(2)}`);
    await scene.has("2001:db8:1:", "2001:db8:2:");
    assertEquals(scene.lan["gateway"], gateway);
    // The old address expires.
    await scene.has("2001:db8:2:");
    // So does the router.
    await net.stopAdvertising();
    await scene.has();
    await eventually(
      "it has no gateway",
      () => !Object.hasOwn(scene.lan, "gateway"),
    );
    assertEquals(scene.lan, {
      name: "default/lan",
      interface: "net1",
      mac,
      dns: {},
    });
    assertEquals(scene.master, master);
    assertMatch(
      node.daemon.log,
      /A network has changed the addresses of a pod.*pod=default\/web/,
    );
    const sample = "cni_daemon_network_status_updates_total";
    assertEquals(await node.daemon.metric(sample) >= 3, true);
    await scene.detach();
  },
);

hostTest(
  "the status of a pod follows a DHCPv6 server that renumbers",
  allOf(needsRadvd, needsDhcpd),
  async () => {
    await using scene = await Scene.start();
    const { net } = scene;
    const dhcp = new TestDaemon(`${net.hosts.directory}/dhcp.sock`);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => dhcp.stop());
    const serve = (network: number): ReturnType<RouterNet["serve"]> => {
      const subnet = `2001:db8:${network}::`;
      net.addRouterAddress(`${subnet}1/64`);
      return net.serve(
        `default-lease-time ${SECONDS}; preferred-lifetime ${SECONDS - 10};
        subnet6 ${subnet}/64 { range6 ${subnet}100 ${subnet}1ff; }`,
      );
    };
    await net.advertise("AdvManagedFlag on;");
    await dhcp.start({ timeoutMs: 2000 });
    const server = await serve(1);
    await scene.attach({
      type: "dhcp",
      family: 6,
      daemonSocketPath: dhcp.socket,
    });
    await scene.has("2001:db8:1:");
    await server.stop();
    net.removeRouterAddress("2001:db8:1::1/64");
    const other = await serve(2);
    await scene.has("2001:db8:2:");
    await other.stop();
    await scene.has();
    await scene.detach();
  },
);
