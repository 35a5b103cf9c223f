/**
 * The networks that multus attaches a pod to, and how their configurations are
 * read and completed.
 *
 * What is run and cached is `conf.bytes`. It stays byte for byte what somebody
 * wrote until something has to be set in it; then it is the whole document
 * again, unknown keys and all, and never the parsed view of it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { isObject, type JsonObject } from "../../../cni/json.ts";
import {
  type NetworkConf,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
} from "../../../cni/libcni/conf.ts";
import { parseDocument } from "../../../cni/libcni/conf_document.ts";
import { encodeJson } from "../../../cni/libcni/json_bytes.ts";
import { injectConf } from "../../../cni/libcni/request.ts";
import type { Ip } from "../../../net/ip.ts";

/** What an annotation asks of one attachment, besides the network. */
export interface AttachmentRequest {
  /** Name of the interface inside the sandbox. */
  readonly ifName?: string;
  /** Hardware address, as written. */
  readonly mac?: string;
  /** InfiniBand GUID, as written. */
  readonly infinibandGuid?: string;
  /** Addresses, as written: some with a prefix length, some without. */
  readonly ips?: readonly string[];
  /** Capability of that name. */
  readonly bandwidth?: JsonObject;
  /** Capability of that name. */
  readonly portMappings?: readonly JsonObject[];
  /** What `args.cni` of the configuration shall have. */
  readonly cniArgs?: JsonObject;
  /** Gateways of default routes; absent differs from none. */
  readonly defaultRoute?: readonly Ip[];
  /** Device, if none is found for the network's resource. */
  readonly deviceId?: string;
}

/** A network to attach a pod to. The first of several is the master. */
export interface Delegate {
  /** What status, events and errors call it: `ns/nad`, or the CNI name. */
  readonly name: string;
  /**
   * The list, or the bare plugin, which has `plugin`. Its `bytes` are what is
   * run and cached.
   */
  readonly conf: NetworkConfList | NetworkConf;
  /** What the annotation asks; nothing for networks of every pod. */
  readonly request: AttachmentRequest;
  /** Resource of which the device is. */
  readonly resourceName?: string;
  /** Device that was found for the network's resource. */
  readonly deviceId?: string;
  /** As the scratch file has it. */
  readonly isFilterV4Gateway: boolean;
  /** As the scratch file has it. */
  readonly isFilterV6Gateway: boolean;
}

/** One item of the networks annotation. */
export interface NetworkSelection {
  /** Name of the NetworkAttachmentDefinition. */
  readonly name: string;
  /** Its namespace. */
  readonly namespace: string;
  /** What is asked of the attachment. */
  readonly request: AttachmentRequest;
}

/** What a delegate has besides its configuration. */
export interface DelegateOptions {
  /** As {@linkcode Delegate.name}; the CNI name by default. */
  readonly name?: string;
  /** As {@linkcode Delegate.request}; nothing by default. */
  readonly request?: AttachmentRequest;
}

/** A device, and the resource of which it is. */
export interface DelegateDevice {
  /** Such as `intel.com/sriov`. */
  readonly resourceName: string;
  /** Such as a PCI address. */
  readonly deviceId: string;
}

/** Says whether a configuration is a list, and not a bare plugin. */
export function isList(
  conf: NetworkConfList | NetworkConf,
): conf is NetworkConfList {
  return !("plugin" in conf);
}

/**
 * Reads a delegate: a bare plugin if there is a `type`, else a list.
 *
 * Source: multus-cni pkg/types/conf.go `LoadDelegateNetConf`.
 *
 * @param bytes The configuration, which is kept as it is
 * @throws {CniError} 6 If it is not JSON, 7 if it is no network's configuration
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

/** Of a plugin keys are read in any case, and the empty text is no type. */
function hasType(document: JsonObject): boolean {
  return Object.entries(document).some(([key, value]) =>
    key.toLowerCase() === "type" && value !== "" && value !== null
  );
}

/** Makes a delegate of a configuration that was read already. */
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

/**
 * Gives a configuration a name if it has none.
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `getCNIConfigFromSpec`, which looks for the key to the letter.
 *
 * @returns The same bytes if it has one
 * @throws {CniError} 6 If it is not JSON, 7 if it is no object
 */
export function injectName(bytes: Uint8Array, name: string): Uint8Array {
  const document = parseDocument("configuration", bytes);
  return (document["name"] ?? "") === ""
    ? encodeJson({ ...document, name })
    : bytes;
}

/**
 * Has the bare plugin, or every plugin of the list, know its device, as
 * `deviceID` and `pciBusID`; the delegate remembers it too.
 *
 * @throws {CniError} 7 If the configuration cannot be encoded
 */
export function injectDeviceId(
  delegate: Delegate,
  { resourceName, deviceId }: DelegateDevice,
): Delegate {
  const edited = editPlugins(
    delegate,
    (plugin) => injectConf(plugin, { deviceID: deviceId, pciBusID: deviceId }),
  );
  return { ...edited, resourceName, deviceId };
}

/**
 * Sets keys in `args.cni` of the bare plugin, or of every plugin of the list.
 * Keys that are there already and are not set stay.
 *
 * @throws {CniError} 7 If `args` or `args.cni` is no object
 */
export function injectCniArgs(
  delegate: Delegate,
  cniArgs: JsonObject,
): Delegate {
  return editPlugins(delegate, (plugin) => {
    const args = getObject(plugin, "args");
    const cni = getObject(args, "cni");
    return { ...plugin, args: { ...args, cni: { ...cni, ...cniArgs } } };
  });
}

/** Returns an object of an object; an empty one if it is absent. */
function getObject(parent: JsonObject, key: string): JsonObject {
  const value = parent[key] ?? {};
  if (isObject(value)) return value;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot set "cni-args": "${key}" of the configuration is no object`,
  );
}

/**
 * Gives a list that has no version one. A bare plugin is left as it is: to it
 * no version is 0.1.0.
 *
 * Source: multus-cni pkg/multus/multus.go `DelegateAdd`, `DelegateDel`.
 */
export function injectCniVersion(
  delegate: Delegate,
  cniVersion: string,
): Delegate {
  const { conf } = delegate;
  if (!isList(conf) || conf.cniVersion !== "" || cniVersion === "") {
    return delegate;
  }
  const document = parseDocument("configuration list", conf.bytes);
  return { ...delegate, conf: encodeList({ ...document, cniVersion }) };
}

/** Edits the object of the bare plugin, or of every plugin. */
function editPlugins(
  delegate: Delegate,
  edit: (plugin: JsonObject) => JsonObject,
): Delegate {
  const { conf } = delegate;
  if (!isList(conf)) {
    const bytes = encodeJson(edit(conf.plugin.document));
    return { ...delegate, conf: parseNetworkConf(bytes) };
  }
  const document = parseDocument("configuration list", conf.bytes);
  const plugins = conf.plugins.map((plugin) => edit(plugin.document));
  return { ...delegate, conf: encodeList({ ...document, plugins }) };
}

function encodeList(document: JsonObject): NetworkConfList {
  return parseNetworkConfList(encodeJson(document));
}
