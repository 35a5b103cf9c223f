/**
 * Attachments: a pod and one of its networks, as input of libcni's operations.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import type { AddressConflict } from "../../../cni/call/context.ts";
import type { JsonObject, JsonValue } from "../../../base/json/json.ts";
import type { AttachmentResult } from "../../../libcni/cache.ts";
import type { CniArgs, RuntimeConf } from "../../../libcni/operation.ts";
import { asNetwork, type Network } from "../../../libcni/conf.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Route } from "../../../cni/result/result.ts";
import { KNOWN_CAPABILITIES, type MultusConfig } from "./config.ts";
import { type AttachmentRequest, type Delegate, isList } from "./delegate.ts";
import { type K8sArgs, splitPairs } from "./k8s_args.ts";

/** The position of a network in a pod's list. */
export interface DelegatePosition {
  /** All networks of the pod, in order; the first is the master. */
  readonly delegates: readonly Delegate[];
  /** Index of the network, from 0. */
  readonly index: number;
  /** Whether the network is the master; by default, only the first network is. */
  readonly isMaster?: boolean;
}

/** An attachment, as input of libcni's operations. */
export interface NetworkAttachment {
  /** Name of the network in errors: `ns/nad` if known, or the CNI name. */
  readonly name: string;
  /** The network as ADD received it; a list can disable CHECK. */
  readonly network: Network & { readonly disableCheck?: boolean };
  /** The runtime configuration, with the namespace of the current call. */
  readonly conf: RuntimeConf;
  /** Routes that the pod requests over the interface, if known. */
  readonly routes?: readonly Route[] | undefined;
}

/** The outcome of an attachment. */
export interface Attached extends AttachmentResult {
  readonly delegate: Delegate;
  /** Name of the interface inside the sandbox. */
  readonly ifName: string;
  /** Addresses that the interface did not get, because different machines use them. */
  readonly conflicts: readonly AddressConflict[];
  /** Device information for the status. */
  readonly deviceInfo?: JsonObject;
}

/** Returns the network of a delegate, which can be a single plugin. */
export function networkOf(
  { conf }: Pick<Delegate, "conf">,
): NetworkAttachment["network"] {
  return isList(conf) ? conf : asNetwork(conf);
}

/**
 * Returns a network as ADD received it.
 *
 * The Go version up to 4.3.0 writes only a few plugin keys into its scratch file if
 * the list comes from a file. libcni's cache contains all keys, but not the plugins
 * that were appended from the directory next to that file.
 *
 * @param recorded The network in the scratch file
 * @param cached The network in libcni's cache
 */
export function asAdded(
  recorded: NetworkAttachment["network"],
  cached: NetworkAttachment["network"],
): NetworkAttachment["network"] {
  const appended = recorded.plugins.slice(cached.plugins.length);
  return {
    ...cached,
    cniVersion: cached.cniVersion || recorded.cniVersion,
    plugins: [...cached.plugins, ...appended],
  };
}

/** Lists the attachments of delegates, in order. */
export function listAttachments(
  source: Omit<RuntimeConfSource, "index">,
): NetworkAttachment[] {
  return source.delegates.map((delegate, index) => ({
    name: delegate.name,
    network: networkOf(delegate),
    conf: runtimeConfOf({ ...source, index }),
    routes: delegate.request.routes,
  }));
}

/** The input of {@linkcode runtimeConfOf}. */
export interface RuntimeConfSource extends DelegatePosition {
  /** The arguments of multus itself. */
  readonly args: CmdArgs;
  /** The pod. */
  readonly k8s: K8sArgs;
  /** `runtimeConfig` from multus' own configuration. */
  readonly capabilityArgs: JsonObject;
}

/**
 * Names a delegate's interface: the requested name, or CNI_IFNAME for the
 * master, or `net` and the index in the list of all networks.
 *
 * @param index The delegate, from 0
 * @param ifName CNI_IFNAME of multus
 */
export function interfaceNameOf(
  delegates: readonly Delegate[],
  index: number,
  ifName: string,
): string {
  return delegates[index]?.request.ifName || nameByIndex(index, ifName);
}

/** Names the interface of a delegate without a requested name. */
export function nameByIndex(index: number, ifName: string): string {
  return index === 0 ? ifName : `net${index}`;
}

/**
 * Returns the runtime configuration of a delegate, equal for all commands.
 *
 * All delegates get the runtime's capability arguments, so a pod's host ports
 * reach every network that declares `portMappings`. The annotation's request
 * replaces them. The master gets its request in CNI_ARGS only.
 *
 * Source: multus-cni pkg/types `CreateCNIRuntimeConf`, `mergeCNIRuntimeConfig`.
 *
 * @throws {RangeError} If the delegate does not exist
 */
export function runtimeConfOf(source: RuntimeConfSource): RuntimeConf {
  const { delegates, index, args, k8s } = source;
  const { containerId, netns } = args;
  const delegate = delegates[index];
  if (delegate === undefined) throw new RangeError(`No delegate ${index}`);
  const ifName = interfaceNameOf(delegates, index, args.ifName);
  return {
    containerId,
    netns,
    ifName,
    args: delegateArgs(k8s, args.args, delegate.request),
    capabilityArgs: withDeviceInfo(capabilityArgsFor(delegate, source), {
      delegateName: delegate.name,
      containerId,
      ifName,
    }),
  };
}

/** Describes a call's attachment, in the same way for all commands. */
export function delegateAttachmentOf(
  { call, k8s }: {
    readonly call: Pick<Call<MultusConfig>, "args" | "config">;
    readonly k8s: K8sArgs;
  },
  position: DelegatePosition,
): NetworkAttachment {
  const { args, config: { runtimeConfig: capabilityArgs } } = call;
  const conf = runtimeConfOf({ ...position, args, k8s, capabilityArgs });
  const delegate = position.delegates[position.index] as Delegate;
  return { name: delegate.name, network: networkOf(delegate), conf };
}

/**
 * Builds CNI_ARGS of a delegate: five keys that are always present, in this order;
 * the other keys of multus' own CNI_ARGS; and the requested hardware address and
 * addresses, for plugins without the capability.
 *
 * Each key occurs once. The Go version repeats keys, and plugins use the last
 * value; here that value is at the key's first position. An empty value does
 * not replace a known one, and `IgnoreUnknown` stays true, because delegates
 * get keys that they might not support.
 *
 * Source: multus-cni pkg/types `CreateCNIRuntimeConf`.
 *
 * @param text The value of multus' own CNI_ARGS
 */
export function delegateArgs(
  k8s: K8sArgs,
  text: string,
  { mac, ips = [] }: Pick<AttachmentRequest, "mac" | "ips">,
): CniArgs {
  const args = new Map([
    ["IgnoreUnknown", "true"],
    ["K8S_POD_NAMESPACE", k8s.podNamespace],
    ["K8S_POD_NAME", k8s.podName],
    ["K8S_POD_INFRA_CONTAINER_ID", k8s.infraContainerId],
    ["K8S_POD_UID", k8s.podUid],
  ]);
  for (const [key, value] of splitPairs(text)) {
    const isNewValue = value !== "" || !args.has(key);
    if (isNewValue && key !== "IgnoreUnknown") args.set(key, value);
  }
  if (mac) args.set("MAC", mac);
  if (ips.length > 0) args.set("IP", ips.join(","));
  return [...args];
}

/** Merges the runtime's capability arguments with the request. */
function capabilityArgsFor(
  delegate: Delegate,
  { index, isMaster = index === 0, capabilityArgs }: RuntimeConfSource,
): JsonObject {
  const known: readonly string[] = KNOWN_CAPABILITIES;
  const offered = Object.entries(capabilityArgs)
    .filter(([capability]) => isMaster || known.includes(capability));
  const merged = isMaster ? offered : [...offered, ...listRequested(delegate)];
  // If a key occurs twice, the last value wins, even if it is empty.
  return Object.fromEntries(
    Object.entries(Object.fromEntries(merged))
      .filter(([, value]) => !isEmpty(value)),
  );
}

function listRequested(
  { request, deviceId = request.deviceId }: Delegate,
): [capability: string, value: JsonValue][] {
  const { portMappings, bandwidth, ips, mac, infinibandGuid } = request;
  const requested: [string, JsonValue][] = [];
  if (portMappings) requested.push(["portMappings", [...portMappings]]);
  if (bandwidth) requested.push(["bandwidth", bandwidth]);
  if (ips) requested.push(["ips", [...ips]]);
  if (mac) requested.push(["mac", mac]);
  if (infinibandGuid) requested.push(["infinibandGUID", infinibandGuid]);
  if (deviceId) requested.push(["deviceID", deviceId]);
  return requested;
}

function isEmpty(value: JsonValue): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** Adds the path of the device information file, if there is a device. */
function withDeviceInfo(
  offer: JsonObject,
  key: DeviceInfoKey,
): JsonObject {
  if (offer["deviceID"] === undefined) return offer;
  return { ...offer, CNIDeviceInfoFile: deviceInfoPath(key) };
}

/** Parent of the directories with device information files. */
export const DEVICE_INFO_DIR = "/var/run/k8s.cni.cncf.io/devinfo";

/** The attachment of a device information file. */
export interface DeviceInfoKey {
  /** Name of the delegate: `ns/nad`, or the CNI name. */
  readonly delegateName: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Builds the path for the capability `CNIDeviceInfoFile` of a CNI plugin. */
export function deviceInfoPath(
  { delegateName, containerId, ifName }: DeviceInfoKey,
  baseDir: string = DEVICE_INFO_DIR,
): string {
  const name = `${delegateName}-${containerId}_${ifName}`;
  return `${baseDir}/cni/${name.replaceAll("/", "-")}`;
}
