/**
 * A program that adds, checks and deletes containers beside many others in one
 * process, for tests that watch its system calls: `crowded_node.ts WAY COUNT...`.
 *
 * WAY is `daemon` for a process that keeps what it knows, as the node daemon does,
 * and `process` for one that does not. For each list of {@linkcode LISTS}, it does so
 * beside each number of others in turn, smallest first. Before each command of the
 * last round, and at its end, it looks for a file with a name such as
 * `/mark-macvlan-250-ADD`.
 *
 * @module
 */

import { Nftables } from "../../ffi/nftables/mod.ts";
import { keepLeases } from "../../ipam/host_local/daemon.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsLinks } from "./link_kinds.ts";

/** The link of the host below those of macvlan and ipvlan. */
const MASTER = "lower0";

/** Rounds before the one that counts: each way to call is then compiled and warm. */
const WARM_UP = 2;

type Keys = Readonly<Record<string, unknown>>;

/** Returns the plugins of a network, for the container of a number. */
type List = (hosts: TestHosts, number: number) => readonly Keys[];

const ipam = (hosts: TestHosts): Keys => hosts.hostLocal("10.1.0.0/16");
const RATES = {
  ingressRate: 1e8,
  ingressBurst: 1e7,
  egressRate: 1e8,
  egressBurst: 1e7,
};

function ptp(hosts: TestHosts, keys: Keys = {}): Keys {
  return { type: "ptp", ipam: ipam(hosts), ...keys };
}

function ports(backend: string, number: number): Keys {
  const portMappings = [
    { hostPort: 10_000 + number, containerPort: 80, protocol: "tcp" },
  ];
  return { type: "portmap", backend, runtimeConfig: { portMappings } };
}

/** The networks that are measured. */
export const LISTS: Readonly<Record<string, List>> = {
  "ptp and masquerade (nftables)": (hosts) => [
    ptp(hosts, { ipMasq: true, ipMasqBackend: "nftables" }),
  ],
  "ptp and masquerade (iptables)": (hosts) => [
    ptp(hosts, { ipMasq: true, ipMasqBackend: "iptables" }),
  ],
  "bridge and MAC check": (hosts) => [{
    type: "bridge",
    bridge: "many0",
    isGateway: true,
    macspoofchk: true,
    ipam: ipam(hosts),
  }],
  "macvlan": (hosts) => [
    { type: "macvlan", master: MASTER, ipam: ipam(hosts) },
  ],
  "ipvlan": (hosts) => [{ type: "ipvlan", master: MASTER, ipam: ipam(hosts) }],
  "ptp and firewall (nftables)": (hosts) => [
    ptp(hosts),
    { type: "firewall", backend: "nftables" },
  ],
  "ptp and portmap (nftables)": (hosts, number) => [
    ptp(hosts),
    ports("nftables", number),
  ],
  "ptp and portmap (iptables)": (hosts, number) => [
    ptp(hosts),
    ports("iptables", number),
  ],
  "ptp, tuning, bandwidth and sbr": (hosts) => [
    ptp(hosts),
    { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
    { type: "bandwidth", ...RATES },
    { type: "sbr" },
  ],
};

/** Lists the names of the networks that the kernel can have. */
export function listPossible(): string[] {
  return Object.keys(LISTS)
    .filter((name) => !needsLinks(name).ignore);
}

function mark(name: string): void {
  try {
    Deno.statSync(`/mark-${name}`);
  } catch {
    // It does not exist.
  }
}

/** A node, and the containers of one network on it. */
class CrowdedNode implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #hosts: TestHosts;
  readonly #name: string;
  readonly #sandboxes: NetNs[] = [];

  /**
   * Makes a node without containers.
   *
   * @param name Of {@linkcode LISTS}
   * @param keeps Whether this process keeps what it knows
   */
  constructor(name: string, keeps: boolean) {
    this.#name = name;
    this.#hosts = this.#stack.use(TestHosts.create());
    const { host } = this.#hosts;
    runIn(host, "ip", "link", "add", MASTER, "type", "veth");
    runIn(host, "ip", "link", "set", MASTER, "up");
    if (!keeps) return;
    this.#stack.use(Nftables.keepOpen(host.path));
    this.#stack.use(keepLeases({ info(): void {} }));
  }

  /** Measures the commands of one container beside a number of others. */
  async measure(others: number): Promise<void> {
    while (this.#sandboxes.length < others) {
      await this.#call("ADD", this.#sandboxes.length);
    }
    const valid = this.#sandboxes.map((_, number) => ({
      containerID: `c${number}`,
      ifname: "eth0",
    }));
    for (let round = 0; round <= WARM_UP; round++) {
      const note = (command: string): void => {
        if (round === WARM_UP) mark(`${this.#name}-${others}-${command}`);
      };
      note("ADD");
      const prevResult = await this.#call("ADD", others);
      note("CHECK");
      await this.#call("CHECK", others, { prevResult });
      note("DEL");
      await this.#call("DEL", others, { prevResult });
      note("GC");
      await this.#call("GC", others, { "cni.dev/valid-attachments": valid });
      note("end");
    }
    this.#sandboxes.length = others;
  }

  async #call(
    command: string,
    number: number,
    keys: Keys = {},
  ): Promise<unknown> {
    const sandbox = this.#sandboxes[number] ??= this.#hosts.addNetns();
    const config = {
      cniVersion: "1.1.0",
      name: "net1",
      type: "chain",
      plugins: LISTS[this.#name]?.(this.#hosts, number),
      ...keys,
    };
    const options = { containerId: `c${number}`, sandbox };
    const { exitCode, stdout, json } = await this.#hosts
      .run("chain", command, config, options);
    if (exitCode !== 0) throw new Error(`${this.#name}: ${stdout}`);
    return json;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

if (import.meta.main) {
  const [way, ...counts] = Deno.args;
  for (const name of listPossible()) {
    using node = new CrowdedNode(name, way === "daemon");
    for (const others of counts) await node.measure(Number(others));
  }
}
