/**
 * The chains of plugins that are measured, and the ways to have one attach a
 * container: as a runtime runs them, one process after the other, or by one process
 * that does it all.
 *
 * @module
 */

import type { Call } from "./call.ts";

/** A chain: the types of its plugins, in the order of ADD. */
type Chain = readonly [string, ...string[]];

/** The chains by name; where there is an interface plugin, host-local is its IPAM. */
export const CHAINS = {
  "host-local": ["host-local"],
  "ptp": ["ptp"],
  "bridge": ["bridge"],
  "pod": ["ptp", "bandwidth", "sbr"],
  "ports": ["ptp", "portmap", "bandwidth", "sbr"],
} as const satisfies Record<string, Chain>;

/** The name of one of {@linkcode CHAINS}. */
export type ChainName = keyof typeof CHAINS;

/** A network configuration list. */
interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConf[];
}

/** One plugin's entry in a list. */
type PluginConf = Readonly<Record<string, unknown>> & {
  readonly type: string;
};

/** The properties of a network. */
export interface Network {
  readonly chain: ChainName;
  /** Whether containers reach other networks by the node's address. */
  readonly masquerade: boolean;
  /** Directory of the leases. */
  readonly dataDir: string;
  /** The port of the node that is mapped to the container's port 80. */
  readonly hostPort: number;
}

/** The newest version that the Go plugins of Debian 12 serve. */
const CNI_VERSION = "1.0.0";
/** Holds more containers than are ever on the node. */
const SUBNET = "10.22.0.0/16";
/** Wide enough for packets of any size: 1 Gbit/s, bursts of 100 Mbit. */
const RATE = 1_000_000_000, BURST = 100_000_000;

/** Names the executables that a chain consists of. */
export function listExecutables(chain: ChainName): string[] {
  return [...new Set([...CHAINS[chain], "host-local"])];
}

/** Builds the configuration of a network. */
export function describeNetwork(network: Network): ConfList {
  return {
    cniVersion: CNI_VERSION,
    name: "bench",
    plugins: CHAINS[network.chain].map((type) => describePlugin(type, network)),
  };
}

function describePlugin(
  type: string,
  { masquerade, dataDir, hostPort }: Network,
): PluginConf {
  const ipam = {
    type: "host-local",
    dataDir,
    ranges: [[{ subnet: SUBNET }]],
    routes: [{ dst: "0.0.0.0/0" }],
  };
  const limits = {
    ingressRate: RATE,
    ingressBurst: BURST,
    egressRate: RATE,
    egressBurst: BURST,
  };
  const mapping = { hostPort, containerPort: 80, protocol: "tcp" };
  const keys: Readonly<Record<string, object>> = {
    // An IPAM plugin is given the configuration of the plugin that it serves.
    "host-local": { type: "ptp", ipam },
    "ptp": { ipMasq: masquerade, ipam },
    "bridge": { bridge: "bench0", isGateway: true, ipMasq: masquerade, ipam },
    "bandwidth": limits,
    "portmap": { snat: true, runtimeConfig: { portMappings: [mapping] } },
  };
  return { type, ...keys[type] };
}

/** A step on an attachment. */
export type Verb = "ADD" | "DEL";

/** A container that is to be attached, or is. */
export interface Attachment {
  readonly id: string;
  /** Path of the container's network namespace. */
  readonly netns: string;
  /** The network's configuration for this container. */
  readonly list: ConfList;
  /** The output of the last plugin of ADD. */
  result?: string;
}

/** Where a chain's executables are, and where they may write. */
export interface Place {
  /** Directory of the executables. */
  readonly bin: string;
  /** Directory of multus. */
  readonly multus: string;
  /** Directory for caches and the like. */
  readonly directory: string;
  /** The socket of the node's daemon. */
  readonly socket: string;
  /** Directory of the socket of thick multus. */
  readonly thickDir: string;
}

/** A call of a chain, made when its turn comes: it is given the result so far. */
export interface PlannedCall {
  readonly make: (attachment: Attachment) => Call;
}

/** A daemon that a node may have: ours, or that of thick multus. */
export type DaemonKind = "node" | "thick";

/** The pod that all calls of thick multus are for. */
export const POD = { namespace: "default", name: "bench", uid: "bench" };

/** A way to run a chain. */
export interface Route {
  /** Its name in tables; "" for one process after the other. */
  readonly name: string;
  /** The executable that it needs besides the plugins. */
  readonly executable: string | undefined;
  /** The daemon that the node must have. */
  readonly daemon?: DaemonKind;
  /** Plans the calls that do `verb`, in order. */
  plan(chain: ChainName, verb: Verb, place: Place): readonly PlannedCall[];
}

const IF_NAME = "eth0";
const POD_ARGS = `K8S_POD_NAMESPACE=${POD.namespace};K8S_POD_NAME=${POD.name}`;

/** As container runtimes do it: a process for each plugin, in reverse for DEL. */
export const oneByOne: Route = {
  name: "",
  executable: undefined,
  plan: planEach(() => ({})),
};

/**
 * The same on a node with the daemon. The configuration names its socket, since
 * one machine has several such nodes.
 */
export const byDaemon: Route = {
  name: "daemon",
  executable: "cni",
  daemon: "node",
  plan: planEach(({ socket }) => ({ daemonSocket: socket })),
};

/** By the plugin that calls a list of networks, here the chain as the only one. */
const multus: Route = {
  name: "multus",
  executable: "multus",
  plan: planWhole("multus", ({ list }, { bin, directory }) => ({
    cniVersion: list.cniVersion,
    name: "multus",
    type: "multus",
    binDir: bin,
    cniDir: `${directory}/multus`,
    delegates: [list],
  })),
};

/** By the plugin that calls a chain of others. */
const chained: Route = {
  name: "chain",
  executable: "chain",
  plan: planWhole("chain", ({ list }) => ({ ...list, type: "chain" })),
};

/** By the daemon of thick multus, which the shim asks, and an API server. */
const thick: Route = {
  name: "multus thick",
  executable: "multus-shim",
  daemon: "thick",
  plan: planWhole("multus-shim", ({ list }, { bin, thickDir }) => ({
    cniVersion: list.cniVersion,
    name: "multus",
    type: "multus-shim",
    daemonSocketDir: thickDir,
    binDir: bin,
    delegates: [list],
  })),
};

/** Every way. */
export const ROUTES: readonly Route[] = [
  oneByOne,
  byDaemon,
  chained,
  multus,
  thick,
];

/** Plans a call for each plugin, whose configuration has further keys. */
function planEach(addKeys: (place: Place) => object): Route["plan"] {
  return (chain, verb, place) => {
    const calls = CHAINS[chain].map((plugin, at) => ({
      make(attachment: Attachment): Call {
        const { plugins, cniVersion, name } = attachment.list;
        const keys = { cniVersion, name, ...addKeys(place) };
        const conf = { ...plugins[at], ...keys };
        return callPlugin(plugin, { verb, attachment, place, conf });
      },
    }));
    return verb === "DEL" ? calls.toReversed() : calls;
  };
}

/** Plans the single call of a plugin that does the work of the whole chain. */
function planWhole(
  plugin: string,
  describe: (attachment: Attachment, place: Place) => object,
): Route["plan"] {
  return (_chain, verb, place) => [{
    make: (attachment): Call => {
      const conf = describe(attachment, place);
      return callPlugin(plugin, { verb, attachment, place, conf });
    },
  }];
}

/** Calls a plugin by the protocol. */
function callPlugin(plugin: string, { verb, attachment, place, conf }: {
  readonly verb: Verb;
  readonly attachment: Attachment;
  readonly place: Place;
  readonly conf: object;
}): Call {
  const { id, netns, result } = attachment;
  const prevResult = result === undefined
    ? {}
    : { prevResult: JSON.parse(result) };
  return {
    path: `${plugin.startsWith("multus") ? place.multus : place.bin}/${plugin}`,
    args: [],
    env: {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: id,
      CNI_NETNS: netns,
      CNI_IFNAME: IF_NAME,
      CNI_PATH: place.bin,
      ...plugin === "multus-shim" && { CNI_ARGS: POD_ARGS },
    },
    stdin: JSON.stringify({ ...conf, ...prevResult }),
  };
}

/** Calls a plugin for the versions that it serves. */
export function callForVersions(path: string): Call {
  const stdin = JSON.stringify({ cniVersion: "1.0.0" });
  return { path, args: [], env: { CNI_COMMAND: "VERSION" }, stdin };
}
