/**
 * Attaches a pod to one network.
 *
 * @module
 */

import { CniError } from "../../../cni/error.ts";
import type { JsonObject } from "../../../cni/json/json.ts";
import type { AttachmentResult } from "../../../cni/libcni/attachment_result.ts";
import { sayWhichFailed } from "../../../cni/libcni/operation.ts";
import { keyOf, type RuntimeConf } from "../../../cni/libcni/runtime_conf.ts";
import { networkOf } from "../memory/cached_attachments.ts";
import { type Delegate, isList } from "../model/delegate.ts";
import { runtimeConfOf } from "../model/attachment.ts";
import type { Session } from "../session.ts";

/** The position of a network in a pod's list. */
export interface Place {
  /** All networks of the pod, in order; the first is the master. */
  readonly delegates: readonly Delegate[];
  /** Index of the network, from 0. */
  readonly index: number;
  /** Whether the network is the master; by default the first one is. */
  readonly isMaster?: boolean;
}

/** The outcome of an attachment. */
export interface Attached extends AttachmentResult {
  readonly delegate: Delegate;
  /** Name of the interface inside the sandbox. */
  readonly ifName: string;
  /** Device information for the status. */
  readonly deviceInfo?: JsonObject;
}

/** Returns an attachment's runtime configuration, equal for all commands. */
export function describe({ call, k8s }: Session, place: Place): RuntimeConf {
  const { args, config } = call;
  return runtimeConfOf({
    ...place,
    args,
    k8s,
    capabilityArgs: config.runtimeConfig,
  });
}

/**
 * Runs ADD of a network's plugins, and sets the requested default routes in the
 * sandbox.
 *
 * @throws {CniError} With the code of the cause. DEL removes what was created
 */
export async function attach(
  session: Session,
  place: Place,
  delegate: Delegate,
): Promise<Attached> {
  const conf = describe(session, place);
  await provideDeviceInfo(session, delegate, conf);
  const added = await runAdd(session, delegate, conf);
  const routed = await applyRoutes(session, place, { delegate, conf, added });
  const deviceInfo = await readDeviceInfo(session, conf);
  const { ifName } = conf;
  return { ...routed, delegate, ifName, ...deviceInfo && { deviceInfo } };
}

async function runAdd(
  { runtime, call: { signal } }: Session,
  { conf: network }: Delegate,
  conf: RuntimeConf,
): Promise<AttachmentResult> {
  return isList(network)
    ? await runtime.addNetworkList(network, conf, { signal })
    : await runtime.addNetwork(network, conf, { signal });
}

/** Updates routes in the sandbox, in the result, and in libcni's cache. */
async function applyRoutes(
  { call: { args }, cache }: Session,
  { delegates }: Place,
  { delegate, conf, added }: {
    readonly delegate: Delegate;
    readonly conf: RuntimeConf;
    readonly added: AttachmentResult;
  },
): Promise<AttachmentResult> {
  if (delegates.every(({ request }) => request.defaultRoute === undefined)) {
    return added;
  }
  const { applyDefaultRoute } = await import("../route/default_route.ts");
  const document = applyDefaultRoute({
    args,
    ifName: conf.ifName,
    delegate,
    delegates,
    document: added.document,
  });
  if (document === added.document) return added;
  cache.replaceResult(keyOf(networkOf(delegate), conf), document);
  const { decodeResult } = await import("../../../cni/result/decoding.ts");
  return { document, result: decodeResult(document) };
}

async function provideDeviceInfo(
  { log }: Session,
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
  { log }: Session,
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
 * Builds the error for a failed attachment.
 *
 * Source: multus-cni pkg/multus `cmdPluginErr`.
 *
 * @returns An error with the code and details of the cause
 */
export function attachmentFailure(
  { k8s }: Pick<Session, "k8s">,
  { conf: { name } }: Delegate,
  error: unknown,
): CniError {
  const { podNamespace, podName, podUid } = k8s;
  const { code, message, details } = sayWhichFailed(error);
  return new CniError(
    code,
    `[${podNamespace}/${podName}/${podUid}:${name}]: ` +
      `error adding container to network "${name}": ${message}`,
    { details },
  );
}
