/**
 * Detaches a pod from one network.
 *
 * @module
 */

import { checkNetworkName } from "../../../cni/call/args.ts";
import { describeError, ErrorCode, toCniError } from "../../../cni/error.ts";
import { findPlugin } from "../../../cni/invoke/find.ts";
import type { NetworkRuntime } from "../../../cni/libcni/api.ts";
import type { RuntimeConf } from "../../../cni/libcni/runtime_conf.ts";
import { removeDeviceInfo } from "../devices/device_info.ts";
import type { OperationLog } from "../log/operation_log.ts";
import { DEVICE_INFO_DIR, type KnownAttachment } from "../model/attachment.ts";
import {
  isCached,
  recall,
  type Recalled,
} from "../memory/cached_attachments.ts";

/** What detaching needs of a call. */
export interface DetachingCall {
  readonly runtime: Pick<NetworkRuntime, "delNetworkList" | "findCachedConfig">;
  /** Folders to search for plugins, in order. */
  readonly pluginDirs: readonly string[];
  readonly log: Pick<OperationLog, "verbose" | "warn">;
}

/**
 * Runs DEL of a network's plugins, last one first, and continues after failures.
 * The plugins get the recorded configuration and arguments of ADD.
 *
 * @param signal Aborts DEL
 * @throws {PluginFailure} Or an AggregateError of several; the attachment's
 *   record is kept
 */
export async function detach(
  session: DetachingCall,
  attachment: Recalled,
  signal: AbortSignal | undefined,
): Promise<void> {
  // ADD refuses a network without a valid name before it runs a plugin.
  if (!isNetworkName(attachment.network.name)) return;
  const { network, conf } = recall(session, attachment);
  const options = { continueOnDelErrors: true, signal };
  const plugins = listRun(session, network, conf);
  const run = { ...network, plugins };
  try {
    await session.runtime.delNetworkList(run, conf, options);
  } catch (error) {
    if (!isRefused(session, { network, conf }, error)) throw error;
    session.log.warn("Ignored a refused DEL: ADD was refused too", {
      network: network.name,
      error: describeError(error),
    });
  }
  forgetDevice(session, conf);
}

/** Reports whether ADD cannot have run either: the plugin refuses the CNI version. */
function isRefused(
  session: DetachingCall,
  { network, conf }: Recalled,
  error: unknown,
): boolean {
  return toCniError(error).code === ErrorCode.IncompatibleVersion &&
    !isCached(session, network, conf);
}

function isNetworkName(name: string): boolean {
  try {
    checkNetworkName(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Lists the plugins that ADD may have run. If ADD did not complete, missing
 * plugins are left out: otherwise a pod with a plugin that is not installed could
 * not be deleted.
 */
function listRun(
  session: DetachingCall,
  network: KnownAttachment["network"],
  conf: RuntimeConf,
): KnownAttachment["network"]["plugins"] {
  const { log, pluginDirs } = session;
  if (isCached(session, network, conf)) return network.plugins;
  return network.plugins.filter(({ type }) => {
    try {
      findPlugin(type, pluginDirs);
      return true;
    } catch (error) {
      log.verbose("Skipped DEL of a plugin that ADD did not run", {
        error: describeError(error),
      });
      return false;
    }
  });
}

function forgetDevice(
  { log }: DetachingCall,
  { capabilityArgs }: RuntimeConf,
): void {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  // Keep a file at a path that the runtime chose.
  if (typeof path !== "string") return;
  if (!path.startsWith(`${DEVICE_INFO_DIR}/cni/`)) return;
  try {
    removeDeviceInfo(path);
  } catch (error) {
    log.warn("Left a device info file behind", { error: String(error) });
  }
}
