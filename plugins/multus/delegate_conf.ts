/**
 * What each delegate is told of its attachment.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import type { JsonObject, JsonValue } from "../../cni/json.ts";
import type { RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import { KNOWN_CAPABILITIES } from "./config.ts";
import type { Delegate } from "./networks/delegate.ts";
import { type DeviceInfoKey, deviceInfoPath } from "./devices/device_info.ts";
import { delegateArgs, type K8sArgs } from "./pod/k8s_args.ts";

/** What the description of an attachment is made of. */
export interface RuntimeConfSource {
  /** All of the pod's, in order; the first is the master. */
  readonly delegates: readonly Delegate[];
  /** Which of them it is, from 0. */
  readonly index: number;
  /** What multus was called with. */
  readonly args: CmdArgs;
  /** The pod. */
  readonly k8s: K8sArgs;
  /** `runtimeConfig` of multus' own configuration. */
  readonly capabilityArgs: JsonObject;
}

/**
 * Names a delegate's interface: as is asked for, or as multus itself was asked
 * if it is the master, or `net` and its place, networks of every pod counted.
 *
 * @param index Which delegate, from 0
 * @param ifName CNI_IFNAME that multus was given
 */
export function interfaceNameOf(
  delegates: readonly Delegate[],
  index: number,
  ifName: string,
): string {
  return delegates[index]?.request.ifName || nameByPlace(index, ifName);
}

/** Names the interface of a delegate that asks for none. */
export function nameByPlace(index: number, ifName: string): string {
  return index === 0 ? ifName : `net${index}`;
}

/**
 * Describes the attachment of a delegate, the same for every command.
 *
 * What the runtime offers is offered to all delegates, so the host ports of a
 * pod reach every network that declares `portMappings`; a request of its own
 * replaces it. The master takes what is requested from CNI_ARGS alone.
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

/** Merges what the runtime offers with what is requested. */
function offerTo(
  delegate: Delegate,
  { index, capabilityArgs }: RuntimeConfSource,
): JsonObject {
  const isMaster = index === 0;
  const known: readonly string[] = KNOWN_CAPABILITIES;
  const offered = Object.entries(capabilityArgs)
    .filter(([capability]) => isMaster || known.includes(capability));
  const merged = isMaster ? offered : [...offered, ...listRequested(delegate)];
  // The last of equal keys counts, were it only to say that there is nothing.
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

/** Adds where the plugin finds what is known of its device, if it has one. */
function withDeviceInfo(
  offer: JsonObject,
  key: DeviceInfoKey,
): JsonObject {
  if (offer["deviceID"] === undefined) return offer;
  return { ...offer, CNIDeviceInfoFile: deviceInfoPath(key) };
}
