/**
 * The networks to which multus attaches a pod, and their configurations.
 *
 * Plugins run with `conf.bytes`, which the cache also contains. The bytes are
 * unchanged unless a key must be set; then the whole document is encoded again,
 * including unknown keys.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  foldKey,
  type JsonObject,
  type JsonValue,
} from "../../../base/json/json.ts";
import {
  type NetworkConf,
  type NetworkConfList,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
} from "../../../libcni/conf.ts";
import type { Route } from "../../../cni/result/result.ts";
import type { Ip } from "../../../net/ip.ts";

/** Key of {@linkcode AttachmentRequest.routes} in the annotation and in scratch files. */
export const ROUTES = "dev.cni.routes";

/** The settings that an annotation requests for an attachment. */
export interface AttachmentRequest {
  /** Name of the interface inside the sandbox. */
  readonly ifName?: string;
  /** Hardware address, as written. */
  readonly mac?: string;
  /** InfiniBand GUID, as written. */
  readonly infinibandGuid?: string;
  /** Addresses, as written: some with a prefix length, some without. */
  readonly ips?: readonly string[];
  /** The `bandwidth` capability. */
  readonly bandwidth?: JsonObject;
  /** The `portMappings` capability. */
  readonly portMappings?: readonly JsonObject[];
  /** Merged into `args.cni` of the configuration. */
  readonly cniArgs?: JsonObject;
  /** Gateways of default routes; absent differs from empty. */
  readonly defaultRoute?: readonly Ip[];
  /** Routes over the interface. */
  readonly routes?: readonly Route[];
  /** Device to use if the network's resource provides none. */
  readonly deviceId?: string;
  /** Name of the IPAMClaim with the addresses. */
  readonly claim?: string;
}

/** A network to attach a pod to. A pod's first network is the master. */
export interface Delegate {
  /** Name in status, events and errors: `ns/nad`, or the CNI name. */
  readonly name: string;
  /**
   * The list, or the single plugin, which has `plugin`. Its `bytes` are the plugins'
   * input, and are cached.
   */
  readonly conf: NetworkConfList | NetworkConf;
  /** The annotation's requests; empty for networks of every pod. */
  readonly request: AttachmentRequest;
  /** Resource that provided the device. */
  readonly resourceName?: string;
  /** Device that the network's resource provided. */
  readonly deviceId?: string;
  /** See the scratch file. */
  readonly isFilterV4Gateway: boolean;
  /** See the scratch file. */
  readonly isFilterV6Gateway: boolean;
}

/** An item of the networks annotation. */
export interface NetworkSelection {
  /** Name of the NetworkAttachmentDefinition. */
  readonly name: string;
  /** Its namespace. */
  readonly namespace: string;
  /** The annotation's requests for the attachment. */
  readonly request: AttachmentRequest;
}

/** The source of a network's configuration. */
export type Selection =
  & {
    /** The step in error messages, as in the Go version. */
    readonly context?: string;
  }
  & (
    /** In `delegates`. */
    | { readonly kind: "written"; readonly document: JsonObject }
    /** In a file, or in the first file of a directory. */
    | { readonly kind: "path"; readonly path: string }
    /** In a definition or, without one, in the file with that CNI name. */
    | { readonly kind: "named"; readonly network: NetworkSelection }
    /** In a definition. */
    | { readonly kind: "definition"; readonly network: NetworkSelection }
    /** In the files of the auxiliary chain. */
    | { readonly kind: "auxiliary"; readonly name: string }
  );

/** Settings of a delegate apart from its configuration. */
export interface DelegateOptions {
  /** See {@linkcode Delegate.name}; the CNI name by default. */
  readonly name?: string;
  /** See {@linkcode Delegate.request}; empty by default. */
  readonly request?: AttachmentRequest;
}

/** A device and the resource that provides it. */
export interface DelegateDevice {
  /** The resource, such as `intel.com/sriov`. */
  readonly resourceName: string;
  /** The device, such as a PCI address. */
  readonly deviceId: string;
}

/** Reports whether a configuration is a list, not a single plugin. */
export function isList(
  conf: NetworkConfList | NetworkConf,
): conf is NetworkConfList {
  return !("plugin" in conf);
}

/**
 * Reads a delegate: a single plugin if it has a `type`, otherwise a list.
 *
 * Source: multus-cni pkg/types/conf.go `LoadDelegateNetConf`.
 *
 * @param bytes The configuration, which is kept unchanged
 * @throws {CniError} 6 If it is not JSON, 7 if it is not a network configuration
 */
export function loadDelegate(
  bytes: Uint8Array,
  options: DelegateOptions = {},
): Delegate {
  return toDelegate(parseEither(bytes), options);
}

function parseEither(bytes: Uint8Array): NetworkConfList | NetworkConf {
  const document = parseDocument("configuration", bytes);
  if (hasType(document)) return parseNetworkConf(bytes);
  if (document["plugins"] !== undefined) return parseNetworkConfList(bytes);
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "error parsing configuration: neither 'type' nor 'plugins'",
  );
}

/** Keys of a plugin are case-insensitive; "" does not count as a type. */
function hasType(document: JsonObject): boolean {
  return Object.entries(document).some(([key, value]) =>
    foldKey(key) === "type" && value !== "" && value !== null
  );
}

/** Builds a delegate from a configuration. */
export function toDelegate(
  conf: NetworkConfList | NetworkConf,
  { name = conf.name, request = {} }: DelegateOptions = {},
): Delegate {
  return {
    name,
    conf,
    request,
    isFilterV4Gateway: false,
    isFilterV6Gateway: false,
  };
}

const OWN_TYPES: readonly unknown[] = [
  "multus",
  "multus-shim",
  "multus-daemon",
];

/** Keys that contain the configurations of further plugins. */
const INNER_PLUGINS = ["plugins", "delegates", "delegate", "ipam"];

/** Reports whether a plugin type is multus. */
export function isOwnType(type: unknown): boolean {
  return OWN_TYPES.includes(type);
}

/** Lists the plugins of a network; a single configuration contains only one. */
export function pluginsOf(
  conf: NetworkConfList | NetworkConf,
): readonly PluginConf[] {
  return isList(conf) ? conf.plugins : [conf.plugin];
}

/** Reports whether a network runs multus, at any level of its configuration. */
export function isOwnConf(conf: NetworkConfList | NetworkConf): boolean {
  return pluginsOf(conf).some(({ document }) => runsMultus(document));
}

/** Reports whether a configuration runs multus, at any level. */
export function runsMultus(value: JsonValue): boolean {
  return runsType(value, isOwnType);
}

/**
 * Reports whether a configuration runs a plugin of a type, at any level. Keys are
 * compared case-insensitively, as plugins do.
 */
export function runsType(
  value: JsonValue,
  isWanted: (type: JsonValue) => boolean,
): boolean {
  if (Array.isArray(value)) {
    return value.some((item) => runsType(item, isWanted));
  }
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, item]) => {
    const folded = foldKey(key);
    return folded === "type"
      ? isWanted(item)
      : INNER_PLUGINS.includes(folded) && runsType(item, isWanted);
  });
}

/**
 * Refuses multus as a delegate.
 *
 * @throws {CniError} 7 If the delegate is multus
 */
export function refuseSelf(delegate: Delegate): void {
  if (!isOwnConf(delegate.conf)) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot attach to network "${delegate.name}": multus would call itself`,
  );
}
