/**
 * The metadata of a plugin, for tools: `metadata.ts` next to `plugin.ts`. Calls
 * never load it.
 *
 * @module
 */

import type { Ip } from "../net/ip.ts";
import type { Cidr } from "../net/cidr.ts";
import { findValue, type JsonObject } from "../base/json/json.ts";
import type { MaybePromise } from "../base/waiting.ts";
import type { PluginOrphans } from "./orphans.ts";
import type { PluginKeys } from "./plugin_keys.ts";
import type { Problem } from "./problem.ts";

/**
 * The role of a plugin in a list: it creates the container's interface, comes after
 * a plugin that does, allocates addresses, or runs other plugins.
 */
export type PluginKind = "interface" | "chained" | "ipam" | "meta";

/** Whether users may rely on a plugin's keys and results. */
export type PluginStatus = "stable" | "experimental";

/**
 * What other plugins must consider. IPAM plugins:
 *
 * - `asks over link`: it talks to a server over the container's link.
 * - `assigns own ranges`: it refuses a requested address outside the ranges of its
 *   configuration or its server.
 * - `assigns requests`: it assigns any requested address, and leases none.
 * - `leases requests`: it assigns any requested address, and keeps those in its
 *   `range` and `ipRanges` unique.
 * - `needs router`: it takes addresses from a router's advertisements.
 * - `replaces addresses`: it replaces an address that another machine uses.
 *
 * Other plugins:
 *
 * - `records STATUS`: it records the input of STATUS, so tools do not run it.
 * - `routes each address`: the node gets a route to each of its addresses.
 * - `runs listed plugins`: tools list what it runs as plugins of the same network or
 *   as other networks.
 * - `runs what it names`: it runs any plugin that its configuration names, or sends
 *   the configuration to a daemon.
 * - `sets requested MAC`: it sets the MAC that a pod requests, without a key for it.
 */
export type PluginTrait =
  | "asks over link"
  | "assigns own ranges"
  | "assigns requests"
  | "leases requests"
  | "needs router"
  | "records STATUS"
  | "replaces addresses"
  | "routes each address"
  | "runs listed plugins"
  | "runs what it names"
  | "sets requested MAC";

/** Metadata about a plugin. */
export interface PluginMetadata {
  /** The `type` in configurations and the executable's name. */
  readonly type: string;
  /** Its place in a list. */
  readonly kind: PluginKind;
  /** Whether its keys and results are stable, or may change in any release. */
  readonly status?: PluginStatus;
  /** Its page in docs/, and the section; its type if absent. */
  readonly page?: string;
  /**
   * How `cni install` installs it; a link if absent, unless configured
   * otherwise.
   */
  readonly install?: {
    /** Only if it is named. */
    readonly onRequest?: boolean;
    /** Always a copy: other programs write to its name, through a link. */
    readonly isCopy?: boolean;
  };
  /** Whether it runs the IPAM plugin that its configuration names. */
  readonly ipam?: "required" | "possible";
  /** Other types of the same plugin. */
  readonly otherTypes?: readonly string[];
  /** What it declares to other plugins. */
  readonly traits?: readonly PluginTrait[];
  /** The IPAM plugins that it does not work with. */
  readonly refusesIpam?: PluginTrait;
  /** Whether it makes the container's interface; ipvlan does only with IPAM. */
  readonly makesInterface?: boolean | "with ipam";
  /**
   * Whether the container's traffic can be queued, on the host's end of the
   * interface or on the interface: `none` if it cannot, `needed` if the plugin
   * itself queues it.
   */
  readonly queues?: "none" | "needed";
  /** Whether it makes sense twice in a list. */
  readonly mayRepeat?: boolean;
  /** The plugins that it runs. */
  readonly runs?: Runs;
  /** Returns the plugin that it runs on this node; undefined if that is not known yet. */
  readonly onNode?: (
    conf: JsonObject,
    network: string,
  ) => JsonObject | undefined;
  /** Whether it calls a program that can support keys that its schema lacks. */
  readonly passesOn?: boolean;
  /** Whether STATUS inspects more than the configuration, or writes files. */
  readonly hasDeepStatus?: boolean;
  /** How the container's network and the node's are connected. */
  readonly network?: NetworkTopology;
  /** Changes for a node that used the Go plugin; its page lists all of them. */
  readonly differences?: readonly GoDifference[];
  /** A first configuration, for `cni init`. */
  readonly start?: StartingConf;
  /** Reports whether a configuration has it run iptables, if the host has it. */
  readonly runsIptables?: (conf: JsonObject) => boolean;
  /**
   * Lists the sysctls of the container that a configuration sets, with slashes,
   * below /proc/sys; an interface's sysctls as `lo`'s.
   */
  readonly sysctls?: (conf: JsonObject) => string[];
  /**
   * Returns why ADD on this node refuses a configuration that is valid elsewhere;
   * undefined if it does not.
   */
  readonly refusal?: (
    conf: JsonObject,
    env: Readonly<Record<string, string>>,
  ) => string | undefined;
  /**
   * Reports whether a configuration drops packets between containers on one bridge,
   * which needs the kernel's module `br_netfilter`.
   */
  readonly filtersBridge?: (conf: JsonObject) => boolean;
  /** Lists mistakes in a configuration, and settings without effect. */
  readonly lint?: Lint;
  /** Lists the ranges from which an IPAM plugin allocates addresses. */
  readonly ranges?: (ipam: JsonObject) => GivenRange[];
  /**
   * Lists the subnets from which an IPAM plugin allocates addresses, as sets: a
   * container has an address of one subnet of each set.
   */
  readonly subnets?: (ipam: JsonObject) => GivenSubnet[][];
}

/** The plugins that a plugin runs. */
export interface Runs {
  /** The key with their configurations; undefined if it is another program that runs them. */
  readonly key?: string;
  /** Whether the key has networks, rather than one plugin. */
  readonly areNetworks?: boolean;
  /** The type, if the configuration does not contain it. */
  readonly type?: string;
  /** The type of the IPAM plugin, if the configuration does not contain it. */
  readonly ipamType?: string;
}

/** How the container's network and the node's are connected. */
export interface NetworkTopology {
  /**
   * `lower link`: containers join the network of one of the host's links.
   * `node`: the node has a route to them.
   */
  readonly joins?: "lower link" | "node";
  /** Reports whether the host has the containers' gateway. */
  readonly hasGateway?: (conf: JsonObject) => boolean;
  /** The host's link that all containers share: the key that names it, and its default. */
  readonly sharedLink?: Required<LinkKey>;
  /** The segment of the host's network that containers join. */
  readonly segment?: SegmentKeys;
  /**
   * Reports whether containers get routes through their gateways, in addition
   * to routes of the IPAM plugin.
   */
  readonly routesByGateway?: (conf: JsonObject) => boolean;
  /** Returns the host's link that gets the address of the gateway; undefined if none does. */
  readonly gatewayLink?: (conf: JsonObject) => GatewayLink | undefined;
  /** Returns the host's link that ADD needs; undefined if it needs none. */
  readonly lowerLink?: (conf: JsonObject) => LowerLink | undefined;
}

/** A key that names a link of the host, and its default. */
export interface LinkKey {
  /** The key. */
  readonly key: string;
  /** The link's name if the key is missing. */
  readonly usual?: string;
}

/** The keys that decide on the segment of the host's network that containers join. */
export interface SegmentKeys {
  /** The key that names the host's link. */
  readonly link: LinkKey;
  /** The key with the VLAN ID of the containers' frames. */
  readonly vlan?: string;
  /** With any of these keys, the node routes the network, or the segment is unknown. */
  readonly unless: readonly string[];
}

/** A link of the host that has the gateway of all containers on it. */
export interface GatewayLink {
  /** The link's name on the host. */
  readonly name: string;
  /** Whether ADD deletes a conflicting address instead of failing. */
  readonly replaces: boolean;
}

/** A link of the host that ADD needs. */
export interface LowerLink {
  /** Its name; undefined for the link of the default route. */
  readonly name: string | undefined;
  /** The key that names it. */
  readonly key: string;
  /**
   * What happens to it. `moved`: the container gets it. `receives`: the plugin
   * takes the frames that it receives, so no other plugin can. `shared`: nothing.
   */
  readonly use: "moved" | "receives" | "shared";
}

/** A difference from the Go plugin that users may notice. */
export interface GoDifference {
  /**
   * Matches configurations, as JSON, to which the difference applies; all if
   * absent.
   */
  readonly uses?: RegExp;
  /** What differs, as a sentence. */
  readonly text: string;
}

/** A first configuration of a plugin. */
export interface StartingConf {
  /** The plugin's own keys, which can contain the network's name. */
  readonly keys: (network: string) => JsonObject;
  /** Its place among the types that are offered; the first is the default. */
  readonly rank?: number;
  /** Whether it adds the default routes, so that `ipam` need not. */
  readonly addsRoutes?: boolean;
  /** Whether the user chooses a link of the host, or a VLAN of it. */
  readonly asks?: readonly ("master" | "vlanId")[];
}

/** A configuration to lint. */
export interface Linted {
  /** The plugin's object, with its keys as the schemas spell them. */
  readonly conf: JsonObject;
  /** Keys of runtimeConfig, and whether the plugin declares them. */
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** Whether multus adds the device that the cluster allocated. */
  readonly hasDevice: boolean;
  /** Whether this plugin will read it, and not a different one of the same name. */
  readonly isOurs: boolean;
}

/**
 * Lists problems of a configuration that its schema cannot express. Their
 * places are in the plugin's object; places of an IPAM plugin begin with
 * `ipam`.
 */
export type Lint = (given: Linted) => Problem[];

/** A range of addresses that an IPAM plugin gives to containers. */
export interface GivenRange {
  /** Where it is in the configuration. */
  readonly place: readonly PropertyKey[];
  /** The subnet that it belongs to. */
  readonly subnet: Cidr;
  /** The first address. */
  readonly start: Ip;
  /** The last address. */
  readonly end: Ip;
  /** Addresses and networks that it withholds, perhaps outside the range. */
  readonly withheld?: readonly Cidr[];
}

/** A subnet of addresses that an IPAM plugin gives to containers. */
export interface GivenSubnet {
  /** Where it is in the configuration. */
  readonly place: readonly PropertyKey[];
  /** The network, with its prefix length. */
  readonly subnet: Cidr;
  /** The gateway of results; undefined if they have none. */
  readonly gateway: Ip | undefined;
}

/** A feature of the kernel. */
export interface KernelNeed {
  readonly name: string;
  /** The module that provides it. */
  readonly module: string;
  /** Reports whether a configuration needs it; each does if absent. */
  readonly isNeeded?: (conf: JsonObject) => boolean;
  /**
   * Tries it in a temporary namespace.
   *
   * @param netns The namespace's path
   * @param lower The name of a link in the namespace that can be a master
   * @throws {Error} If the kernel does not have it
   */
  readonly probe: (netns: string, lower: string) => void;
}

/** Metadata of a plugin of this project. */
export interface BuiltInMetadata extends PluginMetadata {
  /** The features of the kernel that it needs. */
  readonly needs?: readonly KernelNeed[];
  /** Loads what its keys mean. */
  readonly keys: () => MaybePromise<PluginKeys>;
  /** Loads what finds its orphans. */
  readonly orphans?: () => Promise<PluginOrphans>;
}

/** Reports whether a configuration's key `backend` chooses iptables, as by default. */
export function hasIptablesBackend(conf: JsonObject): boolean {
  const backend = findValue(conf, "backend");
  return backend === "iptables" || backend === undefined || backend === "";
}

/** The segment of a plugin that creates its link on a master. */
export const SEGMENT_OF_MASTER: SegmentKeys = {
  link: { key: "master" },
  unless: ["linkInContainer"],
};

/**
 * Returns the master of a plugin that creates its link on a master; undefined if the
 * master is in the container.
 */
export function masterOf(
  conf: JsonObject,
  use: LowerLink["use"],
): LowerLink | undefined {
  if (findValue(conf, "linkInContainer") === true) return undefined;
  const name = findValue(conf, "master");
  const isNamed = typeof name === "string" && name !== "";
  return { name: isNamed ? name : undefined, key: "master", use };
}

/** Finds the metadata of a plugin; undefined if it has none. */
export type MetadataLookup = (type: string) => PluginMetadata | undefined;
