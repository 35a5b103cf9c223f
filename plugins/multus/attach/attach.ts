/**
 * Attaches a pod to one network, under a name that is free.
 *
 * @module
 */

import { checkInterfaceName, type CmdArgs } from "../../../cni/call/args.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../../cni/error.ts";
import type { JsonObject } from "../../../cni/json/json.ts";
import type { NetworkRuntime } from "../../../cni/libcni/api.ts";
import type { AttachmentResult } from "../../../cni/libcni/attachment_result.ts";
import { sayWhichFailed } from "../../../cni/libcni/operation.ts";
import type { RuntimeConf } from "../../../cni/libcni/runtime_conf.ts";
import type { Log } from "../../../cni/log/log.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import {
  type Attached,
  interfaceNameOf,
  type K8sArgs,
} from "../model/attachment.ts";
import { type Delegate, isList } from "../model/delegate.ts";

/** The parts of a call that attaching needs. */
export interface AttachingCall {
  readonly call: { readonly signal?: AbortSignal | undefined };
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  readonly runtime: Pick<NetworkRuntime, "addNetwork" | "addNetworkList">;
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
  return { ...added, delegate, ifName, ...deviceInfo && { deviceInfo } };
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
 * Builds the error for a failed attachment.
 *
 * Source: multus-cni pkg/multus `cmdPluginErr`.
 *
 * @returns An error with the code and details of the cause
 */
export function attachmentFailure(
  { k8s }: Pick<AttachingCall, "k8s">,
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

/** A delegate cannot have its interface name. */
export class InterfaceNameError extends CniError {
  /** Index of the delegate, from 0. */
  readonly index: number;

  /**
   * Creates an error with the Go version's text.
   *
   * @param index The delegate, from 0
   * @param ifName The name
   * @param reason The cause
   */
  constructor(
    delegates: readonly Delegate[],
    index: number,
    ifName: string,
    reason: CniError,
  ) {
    const network = JSON.stringify(nameOf(delegates[index]));
    super(
      reason.code,
      `DelegateAdd: cannot set ${network} interface name to ` +
        `${JSON.stringify(ifName)}: ${reason.message}`,
      { details: reason.details },
    );
    this.index = index;
  }
}

/** Returns the type of a single plugin, or the name of a list. */
function nameOf(delegate: Delegate | undefined): string {
  if (delegate === undefined) return "";
  const { conf } = delegate;
  return isList(conf) ? conf.name : conf.plugin.type;
}

/**
 * Checks that each delegate's interface name is valid, unique, and unused in the
 * sandbox.
 *
 * Runs before anything is created, so that nothing needs to be undone: DEL of a
 * refused delegate would remove the existing link of that name.
 *
 * Source: multus-cni pkg/multus `validateIfName`.
 *
 * @param listNames Lists the names in use in a namespace
 * @throws {InterfaceNameError} 4 for an unusable name, 8 if the namespace cannot
 *   be entered
 */
export function checkInterfaceNames(
  delegates: readonly Delegate[],
  { ifName, netns }: Pick<CmdArgs, "ifName" | "netns">,
  listNames: (netns: string) => Iterable<string> = listInterfaceNames,
): void {
  const names = delegates.map((_, index) =>
    interfaceNameOf(delegates, index, ifName)
  );
  let taken: Set<string> | undefined;
  for (const [index, name] of names.entries()) {
    const refuse = (reason: CniError): InterfaceNameError =>
      new InterfaceNameError(delegates, index, name, reason);
    try {
      checkInterfaceName(name);
      taken ??= new Set(listNames(netns));
    } catch (error) {
      throw refuse(toCniError(error));
    }
    if (taken.has(name)) throw refuse(alreadyExists(name));
    if (names.indexOf(name) < index) {
      throw refuse(alreadyExists(name, delegates[names.indexOf(name)]));
    }
  }
}

function alreadyExists(name: string, other?: Delegate): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `validateIfName: interface name ${name} already exists`,
    { details: other ? `it is the interface of "${other.name}"` : "" },
  );
}

/**
 * Lists the names of the links in a namespace, with one dump.
 *
 * @throws {CniError} 8 if the namespace cannot be entered
 */
export function listInterfaceNames(netns: string): string[] {
  try {
    using sandbox = Rtnl.open(netns);
    return sandbox.link.list().map(({ name }) => name);
  } catch (error) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `validateIfName: no net namespace ${netns} found: ${
        describeError(error)
      }`,
    );
  }
}
