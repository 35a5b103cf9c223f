/**
 * The runtime configuration of each delegate.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import type { JsonObject, JsonValue } from "../../../cni/json/json.ts";
import type { RuntimeConf } from "../../../cni/libcni/runtime_conf.ts";
import { KNOWN_CAPABILITIES } from "./config.ts";
import type { Delegate } from "./delegate.ts";
import { type DeviceInfoKey, deviceInfoPath } from "../devices/device_info.ts";
import { delegateArgs, type K8sArgs } from "./k8s_args.ts";

/** The input of {@linkcode runtimeConfOf}. */
export interface RuntimeConfSource {
  /** All networks of the pod, in order; the first is the master. */
  readonly delegates: readonly Delegate[];
  /** Index of the delegate, from 0. */
  readonly index: number;
  /** Whether the delegate is the master; by default the first one is. */
  readonly isMaster?: boolean;
  /** The arguments of multus itself. */
  readonly args: CmdArgs;
  /** The pod. */
  readonly k8s: K8sArgs;
  /** `runtimeConfig` of multus' own configuration. */
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
  return delegates[index]?.request.ifName || nameByPlace(index, ifName);
}

/** Names the interface of a delegate without a requested name. */
export function nameByPlace(index: number, ifName: string): string {
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
 * @throws {RangeError} If there is no such delegate
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
    capabilityArgs: withDeviceInfo(offerTo(delegate, source), {
      delegateName: delegate.name,
      containerId,
      ifName,
    }),
  };
}

/** Merges the runtime's capability arguments with the request. */
function offerTo(
  delegate: Delegate,
  { index, isMaster = index === 0, capabilityArgs }: RuntimeConfSource,
): JsonObject {
  const known: readonly string[] = KNOWN_CAPABILITIES;
  const offered = Object.entries(capabilityArgs)
    .filter(([capability]) => isMaster || known.includes(capability));
  const merged = isMaster ? offered : [...offered, ...listRequested(delegate)];
  // Of equal keys the last one wins, even an empty one.
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
