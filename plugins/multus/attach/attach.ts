/**
 * Attaches a pod to a network.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import type { NetworkRuntime } from "../../../libcni/api.ts";
import type { AttachmentResult } from "../../../libcni/cache.ts";
import {
  describeFailedPlugin,
  type RuntimeConf,
} from "../../../libcni/operation.ts";
import type { Log } from "../../../base/log/log.ts";
import type { AddressConflict } from "../../../cni/call/context.ts";
import type { Attached } from "../model/attachment.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import { type Delegate, isList } from "../model/delegate.ts";
import { addressInUse, NetworkError } from "../model/network_error.ts";

/** The parts of a call that attaching needs. */
export interface AttachingCall {
  readonly call: { readonly signal?: AbortSignal | undefined };
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  readonly runtime: Pick<NetworkRuntime, "addNetwork" | "addNetworkList">;
  /** The conflicts of the delegate that was attached last. */
  readonly conflicts: AddressConflict[];
  readonly log: Pick<Log, "debug" | "warn">;
}

/**
 * Runs ADD of a network's plugins.
 *
 * @throws {CniError} With the code of the cause. DEL removes what was created
 */
export async function attach(
  session: AttachingCall,
  delegate: Delegate,
  conf: RuntimeConf,
): Promise<Attached> {
  await provideDeviceInfo(session, delegate, conf);
  const added = await runAdd(session, delegate, conf);
  const deviceInfo = await readDeviceInfo(session, conf);
  const { ifName } = conf;
  const conflicts = session.conflicts.splice(0);
  return {
    ...added,
    delegate,
    ifName,
    conflicts,
    ...deviceInfo && { deviceInfo },
  };
}

async function runAdd(
  { runtime, call: { signal } }: AttachingCall,
  { conf: network }: Delegate,
  conf: RuntimeConf,
): Promise<AttachmentResult> {
  return isList(network)
    ? await runtime.addNetworkList(network, conf, { signal })
    : await runtime.addNetwork(network, conf, { signal });
}

async function provideDeviceInfo(
  { log }: AttachingCall,
  { resourceName, deviceId }: Delegate,
  { capabilityArgs }: RuntimeConf,
): Promise<void> {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  if (!resourceName || !deviceId || typeof path !== "string") return;
  const { copyDeviceInfo } = await import("../devices/device_info.ts");
  try {
    copyDeviceInfo({ resourceName, deviceId }, path);
  } catch (error) {
    log.debug("Cannot copy device info", { error: String(error) });
  }
}

async function readDeviceInfo(
  { log }: AttachingCall,
  { capabilityArgs }: RuntimeConf,
): Promise<JsonObject | undefined> {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  if (typeof path !== "string") return undefined;
  const { findDeviceInfo } = await import("../devices/device_info.ts");
  try {
    return findDeviceInfo(path);
  } catch (error) {
    log.warn("Cannot read device info for the status", {
      error: String(error),
    });
    return undefined;
  }
}

/**
 * Builds the error for a failed attachment. If the cause is an address that a
 * different machine uses, the event names the address.
 *
 * Source: multus-cni pkg/multus `cmdPluginErr`.
 *
 * @returns An error with the code and details of the cause
 */
export function attachmentFailure(
  { k8s, conflicts }: Pick<AttachingCall, "k8s" | "conflicts">,
  { conf: { name }, name: network }: Delegate,
  error: unknown,
): CniError {
  const { podNamespace, podName, podUid } = k8s;
  const { code, message, details } = describeFailedPlugin(error);
  const text = `[${podNamespace}/${podName}/${podUid}:${name}]: ` +
    `error adding container to network "${name}": ${message}`;
  const conflict = conflicts.find(({ instead }) => instead === undefined);
  return conflict === undefined
    ? new CniError(code, text, { details })
    : new NetworkError(code, text, addressInUse(conflict, network), details);
}
