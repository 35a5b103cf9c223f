/**
 * The chains of plugins that are measured, and their configuration.
 *
 * @module
 */

/** A chain: the types of its plugins, in the order of ADD. */
export type Chain = readonly [string, ...string[]];

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
export interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConf[];
}

/** One plugin's entry in a list. */
export type PluginConf = Readonly<Record<string, unknown>> & {
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
