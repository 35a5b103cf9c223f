/**
 * Nodes with pods of other plugins: recorded in tests/golden/upgrade, and made
 * anew where those plugins are installed.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { BIN } from "./executables.ts";
import { type NodeState, readState, sh } from "./node_state.ts";
import { ToolHost } from "./tool_host.ts";

/** The names of both pods' namespaces, and their containers' IDs. */
export const PODS: Readonly<Record<"one" | "two", string>> = {
  one: "1".repeat(64),
  two: "2".repeat(64),
};
const NAMES = Object.keys(PODS) as (keyof typeof PODS)[];

/** A node as it was found. */
export interface Recording {
  /** With both pods. */
  readonly attached: NodeState;
  /** After DEL of both by the plugins that attached them. */
  readonly detached: NodeState;
  /** After DEL by them of both pods that our plugins had attached. */
  readonly returned?: NodeState;
}

/** A network, and whose plugins can attach pods to it. */
export interface UpgradeRow {
  readonly plugins: readonly Readonly<Record<string, unknown>>[];
  /** Names of peers that have all of it. */
  readonly madeBy: readonly string[];
}

const RANGES = {
  type: "host-local",
  ranges: [
    [{ subnet: "10.1.2.0/29" }, { subnet: "10.1.3.0/29" }],
    [{ subnet: "2001:db8:1::/64" }],
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
};

const ONE_RANGE = { type: "host-local", subnet: "10.1.4.0/24" };

const BRIDGE = { type: "bridge", bridge: "cni0", isGateway: true };

const LIMITS = {
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  egressRate: 1_000_000,
  egressBurst: 1_000_000,
};

/** The oldest and the newest release of Go, Go's multus, and our own first one. */
export const OLD = "Go 1.1.1", NEW = "Go 1.10.0", FIRST = "0.1.0";

/** The networks of the pods. */
export const ROWS: Readonly<Record<string, UpgradeRow>> = {
  iptables: {
    plugins: [
      {
        ...BRIDGE,
        ipMasq: true,
        ipMasqBackend: "iptables",
        hairpinMode: true,
        macspoofchk: true,
        ipam: RANGES,
      },
      {
        type: "portmap",
        backend: "iptables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "iptables" },
      { type: "bandwidth", ...LIMITS },
      {
        type: "tuning",
        mtu: 1400,
        sysctl: { "net.ipv4.conf.eth0.log_martians": "1" },
      },
    ],
    madeBy: [OLD, NEW, FIRST],
  },
  nftables: {
    plugins: [
      { ...BRIDGE, ipMasq: true, ipMasqBackend: "nftables", ipam: RANGES },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
    ],
    madeBy: [NEW, FIRST],
  },
  "own tables": {
    plugins: [
      { type: "ptp", ipMasq: true, ipMasqBackend: "nftables", ipam: ONE_RANGE },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "nftables" },
    ],
    madeBy: [FIRST],
  },
  multus: {
    plugins: [{
      type: "multus",
      binDir: "/run/bin",
      delegates: [{
        cniVersion: "1.0.0",
        name: "inner",
        plugins: [{
          type: "ptp",
          ipMasq: true,
          ipMasqBackend: "iptables",
          ipam: ONE_RANGE,
        }],
      }],
    }],
    madeBy: [NEW, FIRST],
  },
};

/** A node with two namespaces, in which one set of plugins is installed. */
export class UpgradeNode implements AsyncDisposable {
  /** The node. */
  readonly host: ToolHost;
  readonly #row: UpgradeRow;

  private constructor(host: ToolHost, row: UpgradeRow) {
    this.host = host;
    this.#row = row;
  }

  /** Creates a node without pods, with our plugins. */
  static async create(
    row: UpgradeRow = { plugins: [], madeBy: [] },
  ): Promise<UpgradeNode> {
    const host = await ToolHost.create();
    const node = new UpgradeNode(host, row);
    host.env["CNI_PATH"] = "/run/bin";
    node.configure("1.0.0");
    // Go waits for the detection of duplicate addresses.
    await sh(
      host,
      `quiet() { "$@" sysctl -qw net.ipv6.conf.default.accept_dad=0; }
       mkdir -p /run/bin; ip link set lo up; quiet
       for pod in ${NAMES.join(" ")}; do
         ip netns add $pod; ip -n $pod link set lo up; quiet ip netns exec $pod
       done`,
    );
    await node.install(BIN);
    return node;
  }

  /** Replaces the plugins, as an upgrade does. Later directories come first. */
  async install(...directories: readonly string[]): Promise<void> {
    await sh(
      this.host,
      'rm -f /run/bin/*; for f; do ln -sf "$f"/* /run/bin; done',
      ...directories,
    );
  }

  /** Writes the network's configuration. */
  configure(cniVersion: string): void {
    const { plugins } = this.#row;
    this.host.addNetwork("pods", [...plugins], { cniVersion });
  }

  /** Runs a command of the tool for a pod. */
  async run(command: string, pod: keyof typeof PODS): Promise<void> {
    const portMappings = [
      { hostPort: 8080 + NAMES.indexOf(pod), containerPort: 80 },
      { hostPort: 5353 + NAMES.indexOf(pod), containerPort: 53 },
    ].map((port, at) => ({ ...port, protocol: at === 0 ? "tcp" : "udp" }));
    this.host.env["CAP_ARGS"] = JSON.stringify({ portMappings });
    await this.succeed(`${command} pods ${pod} --container-id ${PODS[pod]}`);
  }

  /** Runs `cni`, which must succeed. */
  async succeed(line: string): Promise<void> {
    const { code, stdout, stderr } = await this.host.cni(line);
    assertEquals(code, 0, line + stdout + stderr);
  }

  /** Removes a pod's namespace, and waits until its links are gone. */
  async lose(pod: keyof typeof PODS): Promise<void> {
    await sh(
      this.host,
      `count() { ip -o link show type veth | wc -l; }
       before=$(count); ip netns delete ${pod}
       until [ $(count) -lt $before ]; do sleep 0.02; done`,
    );
  }

  /** Puts an empty namespace in its place. */
  async replace(pod: keyof typeof PODS): Promise<void> {
    await sh(this.host, `ip netns add ${pod}`);
  }

  async state(): Promise<NodeState> {
    return await readState(this.host, NAMES);
  }

  /** Attaches and detaches both pods, and returns what there was. */
  async record(): Promise<Recording> {
    for (const pod of NAMES) await this.run("add", pod);
    const attached = await this.state();
    for (const pod of NAMES) await this.run("del", pod);
    return { attached, detached: await this.state() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

/** Where the recording of a row is. */
export function pathOf(row: string, maker: string): URL {
  const name = `${maker} ${row}.json`.toLowerCase().replaceAll(" ", "-");
  return new URL(`../golden/upgrade/${name}`, import.meta.url);
}
