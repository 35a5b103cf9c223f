/**
 * A program that adds, checks and deletes containers beside many others in one
 * process, for tests that watch its system calls:
 * `crowded_node.ts WAY NETWORKS COUNT...`.
 *
 * WAY is `daemon` for a process that keeps what it knows, as the node daemon does,
 * and `process` for one that does not. For each of {@linkcode NETWORKS} whose name
 * matches the regular expression NETWORKS, it does so beside each number of others in
 * turn. Before each command of the last round, and at its end, it looks for a file with a name such
 * as `/mark-macvlan-250-ADD`. It prints how long each command took, in milliseconds.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { WhereaboutsService } from "../../ipam/whereabouts/daemon.ts";
import { keepLeases } from "../../ipam/host_local/daemon.ts";
import { MultusService } from "../../plugins/multus/daemon.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "./eventually.ts";
import { KubeWorker } from "./kube_worker.ts";
import { needsLinks } from "./link_kinds.ts";

/** The link of the host below those of macvlan and ipvlan. */
const MASTER = "lower0";

/** The subnet in which that link has the last address. */
const UPLINK_SUBNET = "10.3.0.0/16", UPLINK_ADDRESS = "10.3.255.254/16";

/** The network's name, for this process alone: chain keeps records for the whole machine. */
const NAME = `net${Deno.pid}`;

/** How many of the others are attached at the same time: they share runs of programs. */
const ATTACHED_AT_ONCE = 16;

/** Rounds before the one that counts: each way to call is then compiled and warm. */
const WARM_UP = 2;
/** How often each command is measured; the fewest calls count. */
const MEASURED = 3;

/** The interfaces of a pod of multus. */
const INTERFACES = 2;

type Keys = Readonly<Record<string, unknown>>;

/** Where a network is. */
interface Scene {
  readonly hosts: TestHosts;
  /** The API server, for networks that need it. */
  readonly cluster: KubeWorker | undefined;
  readonly whereabouts: Plugin;
  /** With the cluster's objects in memory, if this process keeps what it knows. */
  readonly thickMultus: Plugin | "multus";
}

/** What runs for a container. */
interface Input {
  readonly plugin: string | Plugin;
  readonly keys: Keys;
  readonly env?: Environment;
}

/** Returns what runs for the container of a number. */
type Network = (scene: Scene, number: number) => Input;

const ipam = (hosts: TestHosts, subnet = "10.1.0.0/16"): Keys =>
  hosts.hostLocal(subnet);
const RATES = {
  ingressRate: 1e8,
  ingressBurst: 1e7,
  egressRate: 1e8,
  egressBurst: 1e7,
};

/** A network whose plugins run as one chain. */
function chained(
  pluginsOf: (hosts: TestHosts, number: number) => readonly Keys[],
): Network {
  return ({ hosts }, number) => ({
    plugin: "chain",
    keys: { type: "chain", plugins: pluginsOf(hosts, number) },
  });
}

function ptp(hosts: TestHosts, keys: Keys = {}): Keys {
  return { type: "ptp", ipam: ipam(hosts), ...keys };
}

function ports(backend: string, number: number): Keys {
  const portMappings = ["tcp", "udp"].map((protocol) => ({
    hostPort: 10_000 + number,
    containerPort: 80,
    protocol,
  }));
  return { type: "portmap", backend, runtimeConfig: { portMappings } };
}

function podArgs(number: number): Environment {
  return {
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;" +
      `K8S_POD_NAME=${KubeWorker.nameOf(number)}`,
  };
}

/** A pod that wants a second interface. */
function multusOf(
  { hosts, cluster }: Scene,
  number: number,
  plugin: Input["plugin"],
): Input {
  return {
    plugin,
    keys: {
      type: "multus",
      kubeconfig: cluster?.kubeconfig,
      cniDir: `${hosts.directory}/multus`,
      binDir: hosts.path,
      confDir: `${hosts.directory}/net.d`,
      // The machine may have a daemon.
      daemonSocketDir: `${hosts.directory}/run`,
      definitionKeys: ["host-local.dataDir"],
      delegates: [{ cniVersion: "1.1.0", name: "pods", plugins: [ptp(hosts)] }],
    },
    env: podArgs(number),
  };
}

/** The networks that are measured. */
const NETWORKS: Readonly<Record<string, Network>> = {
  "ptp and masquerade (nftables)": chained((hosts) => [
    ptp(hosts, { ipMasq: true, ipMasqBackend: "nftables" }),
  ]),
  "ptp in the subnet of an uplink": chained((hosts) => [
    { type: "ptp", ipam: ipam(hosts, UPLINK_SUBNET) },
  ]),
  "ptp and masquerade (iptables)": chained((hosts) => [
    ptp(hosts, { ipMasq: true, ipMasqBackend: "iptables" }),
  ]),
  "bridge and MAC check": chained((hosts) => [{
    type: "bridge",
    bridge: "many0",
    isGateway: true,
    macspoofchk: true,
    ipam: ipam(hosts),
  }]),
  "macvlan": chained((hosts) => [
    { type: "macvlan", master: MASTER, ipam: ipam(hosts) },
  ]),
  "ipvlan": chained((hosts) => [
    { type: "ipvlan", master: MASTER, ipam: ipam(hosts) },
  ]),
  "ptp and firewall (nftables)": chained((hosts) => [
    ptp(hosts),
    { type: "firewall", backend: "nftables" },
  ]),
  "ptp and firewall (iptables)": chained((hosts) => [
    ptp(hosts),
    { type: "firewall", backend: "iptables" },
  ]),
  "ptp and portmap (nftables)": chained((hosts, number) => [
    ptp(hosts),
    ports("nftables", number),
  ]),
  "ptp and portmap (iptables)": chained((hosts, number) => [
    ptp(hosts),
    ports("iptables", number),
  ]),
  "ptp, tuning, bandwidth and sbr": chained((hosts) => [
    ptp(hosts),
    { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
    { type: "bandwidth", ...RATES },
    { type: "sbr" },
  ]),
  "whereabouts": ({ hosts, cluster, whereabouts }, number) => ({
    plugin: whereabouts,
    keys: {
      type: "macvlan",
      ipam: {
        type: "whereabouts",
        kubernetes: { kubeconfig: cluster?.kubeconfig },
        dataDir: `${hosts.directory}/allocations`,
        range: "10.1.0.0/16",
      },
    },
    env: podArgs(number),
  }),
  "multus": (scene, number) => multusOf(scene, number, "multus"),
  "multus (thick)": (scene, number) =>
    multusOf(scene, number, scene.thickMultus),
};

/** The network of which each pod of multus wants a second interface. */
function secondOf(hosts: TestHosts): Keys {
  return {
    cniVersion: "1.1.0",
    name: "second",
    type: "macvlan",
    master: MASTER,
    ipam: ipam(hosts, "10.2.0.0/16"),
  };
}

/** Networks of an API server. */
const OF_CLUSTERS: readonly string[] = [
  "whereabouts",
  "multus",
  "multus (thick)",
];

/**
 * Opens multus of a daemon, and waits until it knows the cluster's objects.
 *
 * @param stack Closes it
 */
async function openThickMultus(
  kubeconfig: string,
  log: MultusLog,
  stack: AsyncDisposableStack,
): Promise<Plugin> {
  const service = stack.use(
    new MultusService({
      ...{ kubeconfig, log, env: {}, nodeName: KubeWorker.nodeName },
      ...{ config: "", onStderr(): void {} },
      attachments: () => Promise.resolve([]),
    }),
  );
  const end = new AbortController();
  const done = service.run(end.signal);
  stack.defer(async () => {
    end.abort();
    await done;
  });
  const isCurrent = (): boolean =>
    service.listGauges().filter(({ name }) =>
      name === "cni_daemon_watch_current"
    ).every(({ read }) => [...read()].every(([, value]) => value === 1));
  while (!isCurrent()) await pause(10);
  return service.plugin;
}

type MultusLog = ConstructorParameters<typeof MultusService>[0]["log"];

/** Lists the names of all networks. */
export function listNetworks(): string[] {
  return Object.keys(NETWORKS);
}

/** Lists the names of the networks that the kernel can have, if they match a pattern. */
export function listPossible(pattern = ""): string[] {
  return listNetworks().filter((name) =>
    new RegExp(pattern).test(name) && !needsLinks(name).ignore
  );
}

function mark(name: string): void {
  try {
    Deno.statSync(`/mark-${name}`);
  } catch {
    // It does not exist.
  }
}

/** A node, and the containers of one network on it. */
class CrowdedNode implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly #name: string;
  readonly #scene: Scene;
  readonly #sandboxes: NetNs[] = [];
  #attached = 0;
  #added = 0;

  private constructor(
    name: string,
    scene: Scene,
    stack: AsyncDisposableStack,
  ) {
    this.#name = name;
    this.#scene = scene;
    this.#stack = stack;
  }

  /**
   * Creates a node without containers.
   *
   * @param name Of {@linkcode NETWORKS}
   * @param keeps Whether this process keeps what it knows
   * @param most How many containers there will be
   */
  static async create(
    name: string,
    keeps: boolean,
    most: number,
  ): Promise<CrowdedNode> {
    await using stack = new AsyncDisposableStack();
    const hosts = stack.use(TestHosts.create());
    const { host, directory } = hosts;
    runIn(host, "ip", "link", "add", MASTER, "type", "veth");
    runIn(host, "ip", "link", "set", MASTER, "up");
    runIn(host, "ip", "address", "add", UPLINK_ADDRESS, "dev", MASTER);
    const cluster = OF_CLUSTERS.includes(name)
      ? stack.use(await KubeWorker.start(directory, most, secondOf(hosts)))
      : undefined;
    const log = { info(): void {}, warn(): void {} };
    const service = stack.use(new WhereaboutsService({}, log));
    if (keeps) {
      stack.use(Nftables.keepOpen(host.path));
      stack.use(keepLeases(log));
    }
    const scene = {
      hosts,
      cluster,
      whereabouts: keeps
        ? service.plugin
        : (await import("../../ipam/whereabouts/plugin.ts"))
          .whereabouts as Plugin,
      thickMultus: keeps && name.includes("thick") && cluster
        ? await openThickMultus(cluster.kubeconfig, log, stack)
        : "multus" as const,
    };
    return new CrowdedNode(name, scene, stack.move());
  }

  /** Measures the commands of one container beside a number of others. */
  async measure(others: number): Promise<void> {
    while (this.#attached < others) {
      const first = this.#attached;
      this.#attached = Math.min(first + ATTACHED_AT_ONCE, others);
      const some = Array.from(
        { length: this.#attached - first },
        (_, at) => this.#call("ADD", first + at),
      );
      await Promise.all(some);
    }
    const valid = Array.from({ length: others }, (_, number) => ({
      containerID: `c${number}`,
      ifname: "eth0",
    }));
    const measured = async (
      command: string,
      keys: Keys,
      name = command,
    ): Promise<unknown> => {
      await this.#eventsArePosted();
      mark(`${this.#name}-${others}-${name}`);
      const startMs = performance.now();
      const answer = await this.#call(command, others, keys);
      const ms = (performance.now() - startMs).toFixed(1);
      mark("pause");
      console.log([this.#name, others, name, ms].join("\t"));
      return answer;
    };
    const collect = (list: readonly object[]): Keys => ({
      "cni.dev/valid-attachments": list,
    });
    for (let round = 0; round < WARM_UP; round++) {
      const prevResult = await this.#call("ADD", others);
      await this.#call("CHECK", others, { prevResult });
      await this.#call("DEL", others, { prevResult });
      await this.#call("GC", others, collect(valid));
    }
    // What a command changes in the cluster is reported while the next one runs.
    for (let round = 0; round < MEASURED; round++) {
      const prevResult = await measured("ADD", {});
      await measured("CHECK", { prevResult });
      await measured("DEL", { prevResult });
      await measured("GC", collect(valid));
    }
    await measured("GC", collect([]), "GC of all");
    // Links that have no end on the host are still in theirs.
    this.#sandboxes.length = this.#attached = 0;
  }

  /**
   * Waits until the API server has an event for each interface that thick multus has
   * added, which it posts when it has time.
   */
  async #eventsArePosted(): Promise<void> {
    const { cluster, thickMultus } = this.#scene;
    if (cluster === undefined || typeof thickMultus === "string") return;
    const expected = INTERFACES * this.#added;
    await eventually(
      `there are ${expected} events`,
      async () => await cluster.countEvents() === expected,
    );
  }

  async #call(
    command: string,
    number: number,
    more: Keys = {},
  ): Promise<unknown> {
    const { hosts } = this.#scene;
    const sandbox = this.#sandboxes[number] ??= hosts.addNetns();
    const network = NETWORKS[this.#name];
    if (network === undefined) throw new Error(`no network ${this.#name}`);
    const { plugin, keys, env } = network(this.#scene, number);
    const config = { cniVersion: "1.1.0", name: NAME, ...keys, ...more };
    const { exitCode, stdout, json } = await hosts.run(
      plugin,
      command,
      config,
      {
        containerId: `c${number}`,
        sandbox,
        // After all attachments.
        startedAt: new Date(Date.now() + 60_000),
        ...env && { env },
      },
    );
    if (exitCode !== 0) throw new Error(`${this.#name}: ${stdout}`);
    if (command === "ADD") this.#added++;
    return json;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

if (import.meta.main) {
  const [way, pattern, ...counts] = Deno.args;
  const most = Math.max(...counts.map(Number));
  for (const name of listPossible(pattern)) {
    await using node = await CrowdedNode.create(name, way === "daemon", most);
    for (const others of counts) await node.measure(Number(others));
  }
}
