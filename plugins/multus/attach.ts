/**
 * Attaching a pod to one network.
 *
 * @module
 */

import { CniError } from "../../cni/error.ts";
import type { JsonObject } from "../../cni/json.ts";
import type { AttachmentResult } from "../../cni/libcni/attachment_result.ts";
import { sayWhichFailed } from "../../cni/libcni/operation.ts";
import { keyOf, type RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import { networkOf } from "./memory/cached_attachments.ts";
import { type Delegate, isList } from "./networks/delegate.ts";
import { runtimeConfOf } from "./delegate_conf.ts";
import type { Session } from "./session.ts";

/** One of a pod's networks. */
export interface Place {
  /** All of the pod's, in order; the first is the master. */
  readonly delegates: readonly Delegate[];
  /** Which of them it is, from 0. */
  readonly index: number;
}

/** What an attachment came to. */
export interface Attached extends AttachmentResult {
  readonly delegate: Delegate;
  /** Name of the interface inside the sandbox. */
  readonly ifName: string;
  /** What is known of the device, for the status. */
  readonly deviceInfo?: JsonObject;
}

/** Describes an attachment, the same for every command. */
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
 * Runs ADD of a network's plugins, and gives the sandbox the default routes
 * that were asked for.
 *
 * @throws {CniError} With the code of what failed. What was made is for DEL
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

/** The result that is printed and remembered tells of the routes that there are. */
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
  const { applyDefaultRoute } = await import("./routes/default_route.ts");
  const document = applyDefaultRoute({
    netns: args.netns,
    ifName: conf.ifName,
    delegate,
    delegates,
    document: added.document,
  });
  if (document === added.document) return added;
  cache.replaceResult(keyOf(networkOf(delegate), conf), document);
  const { decodeResult } = await import("../../cni/result_decoding.ts");
  return { document, result: decodeResult(document) };
}

async function provideDeviceInfo(
  { log }: Session,
  { resourceName, deviceId }: Delegate,
  { capabilityArgs }: RuntimeConf,
): Promise<void> {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  if (!resourceName || !deviceId || typeof path !== "string") return;
  const { copyDeviceInfo } = await import("./devices/device_info.ts");
  try {
    copyDeviceInfo({ resourceName, deviceId }, path);
  } catch (error) {
    log.debug("No device info was copied", { error: String(error) });
  }
}

async function readDeviceInfo(
  { log }: Session,
  { capabilityArgs }: RuntimeConf,
): Promise<JsonObject | undefined> {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  if (typeof path !== "string") return undefined;
  const { findDeviceInfo } = await import("./devices/device_info.ts");
  try {
    return findDeviceInfo(path);
  } catch (error) {
    log.warn("The status has no device info", { error: String(error) });
    return undefined;
  }
}

/**
 * Words the failure of an attachment.
 *
 * Source: multus-cni pkg/multus `cmdPluginErr`.
 *
 * @returns An error with the code and the details of the cause
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
