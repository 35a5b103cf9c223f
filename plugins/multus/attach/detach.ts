/**
 * Detaches a pod from a network.
 *
 * @module
 */

import { checkNetworkName } from "../../../cni/call/args.ts";
import { describeError, ErrorCode, toCniError } from "../../../base/error.ts";
import { findExecutable } from "../../../cni/invoke/find.ts";
import type { NetworkRuntime } from "../../../libcni/api.ts";
import type { Network } from "../../../libcni/conf.ts";
import type { RuntimeConf } from "../../../libcni/operation.ts";
import type { Log } from "../../../base/log/log.ts";
import { removeDeviceInfo } from "../devices/device_info.ts";
import {
  asAdded,
  DEVICE_INFO_DIR,
  type NetworkAttachment,
  networkOf,
} from "../model/attachment.ts";
import { loadDelegate } from "../model/delegate.ts";

/** The parts of a call that detaching needs. */
export interface DetachingCall {
  readonly runtime: Pick<
    NetworkRuntime,
    "delNetworkList" | "findCachedConfig" | "isRecorded"
  >;
  /** Directories to search for plugins, in order. */
  readonly pluginDirs: readonly string[];
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Runs DEL of a network's plugins in reverse order, and continues after failures. The
 * plugins get the recorded configuration and arguments of ADD.
 *
 * @param signal Aborts DEL
 * @throws {PluginFailure} Or an AggregateError of several failures; the attachment's
 * record is kept
 */
export async function detach(
  session: DetachingCall,
  attachment: RestoredAttachment,
  signal: AbortSignal | undefined,
): Promise<void> {
  // ADD refuses a network without a valid name before it runs a plugin.
  if (!isNetworkName(attachment.network.name)) return;
  const { network, conf } = restoreAttachment(session, attachment);
  const isAdded = isCached(session, network, conf);
  // A record shows which plugins ADD has run.
  const isKnown = isAdded || await session.runtime.isRecorded(network, conf);
  const plugins = isKnown ? network.plugins : listInstalled(session, network);
  const options = { continueOnDelErrors: true, signal };
  try {
    await session.runtime.delNetworkList(
      { ...network, plugins },
      conf,
      options,
    );
  } catch (error) {
    // ADD cannot have run either: the plugin refuses the CNI version.
    const { code } = toCniError(error);
    if (isAdded || code !== ErrorCode.IncompatibleVersion) throw error;
    session.log.warn("Ignored a refused DEL, because ADD was also refused", {
      network: network.name,
      error: describeError(error),
    });
  }
  removeDeviceFile(session, conf);
}

function isNetworkName(name: string): boolean {
  try {
    checkNetworkName(name);
    return true;
  } catch {
    return false;
  }
}

/** A network and the attachment to it. */
export type RestoredAttachment = Pick<NetworkAttachment, "network" | "conf">;

/**
 * Returns an attachment with the configuration and arguments of its ADD, if libcni's
 * cache contains them. A scratch file contains neither port mappings nor bandwidth,
 * and can lack plugin keys, and the annotation might have changed.
 */
export function restoreAttachment(
  { runtime, log }: Pick<DetachingCall, "runtime" | "log">,
  attachment: RestoredAttachment,
): RestoredAttachment {
  const { network, conf } = attachment;
  const warn = (error: unknown): void =>
    log.warn("Cannot read the cached arguments of ADD", {
      network: network.name,
      error: describeError(error),
    });
  const cached = attempt(
    () => runtime.findCachedConfig(network, conf),
    warn,
  );
  if (cached === undefined) return attachment;
  const added = attempt(
    () => asAdded(network, networkOf(loadDelegate(cached.config))),
    warn,
  );
  return { network: added ?? network, conf: cached.conf };
}

function attempt<T>(
  run: () => T,
  onError: (error: unknown) => void,
): T | undefined {
  try {
    return run();
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/**
 * Reports whether libcni's cache contains an attachment, that is, whether its ADD
 * completed. An unreadable file counts.
 */
export function isCached(
  { runtime }: Pick<DetachingCall, "runtime">,
  network: Pick<Network, "name">,
  conf: RuntimeConf,
): boolean {
  try {
    return runtime.findCachedConfig(network, conf) !== undefined;
  } catch {
    return true;
  }
}

/**
 * Lists the plugins that an incomplete ADD can have run. Missing plugins are omitted:
 * otherwise, a pod with a plugin that is not installed could not be deleted.
 */
function listInstalled(
  { log, pluginDirs }: DetachingCall,
  { plugins }: NetworkAttachment["network"],
): NetworkAttachment["network"]["plugins"] {
  return plugins.filter(({ type }) => {
    try {
      findExecutable(type, pluginDirs);
      return true;
    } catch (error) {
      log.info("Skipped DEL of a plugin that ADD did not run", {
        error: describeError(error),
      });
      return false;
    }
  });
}

function removeDeviceFile(
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
