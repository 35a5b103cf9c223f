/**
 * Detaching a pod from one network.
 *
 * @module
 */

import { checkNetworkName } from "../../cni/args.ts";
import { describeError, ErrorCode, toCniError } from "../../cni/error.ts";
import { findPlugin } from "../../cni/invoke/find.ts";
import type { RuntimeConf } from "../../cni/libcni/runtime_conf.ts";
import type { KnownAttachment } from "./memory/cached_attachments.ts";
import { DEVICE_INFO_DIR, removeDeviceInfo } from "./devices/device_info.ts";
import { isCached, recall, type Recalled } from "./memory/recall.ts";
import type { Session } from "./session.ts";

/**
 * Runs DEL of a network's plugins, last to first, all of them whatever fails,
 * with the configuration and the arguments that ADD was given, as far as they are
 * remembered.
 *
 * @param signal When to give up
 * @throws {PluginFailure} Or an AggregateError of several; the attachment is
 *   still remembered
 */
export async function detach(
  session: Session,
  attachment: Recalled,
  signal: AbortSignal | undefined,
): Promise<void> {
  // ADD runs no plugin of a network without a name, or with a bad one.
  if (!isNetworkName(attachment.network.name)) return;
  const { network, conf } = recall(session, attachment);
  const options = { continueOnDelErrors: true, signal };
  const plugins = listRun(session, network, conf);
  const run = { ...network, plugins };
  try {
    await session.runtime.delNetworkList(run, conf, options);
  } catch (error) {
    if (!isRefused(session, { network, conf }, error)) throw error;
    session.log.warn("ADD was refused as DEL is", {
      network: network.name,
      error: describeError(error),
    });
  }
  forgetDevice(session, conf);
}

/** A plugin that does not speak a configuration's version never did anything for it. */
function isRefused(
  session: Session,
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
 * Lists the plugins that ADD may have run. If ADD did not come to an end, those
 * that are not there are not among them: a pod whose network names a plugin that
 * no node has could not be deleted otherwise.
 */
function listRun(
  session: Session,
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
      log.verbose("ADD has not run a plugin", { error: describeError(error) });
      return false;
    }
  });
}

function forgetDevice(
  { log }: Session,
  { capabilityArgs }: RuntimeConf,
): void {
  const path = capabilityArgs?.["CNIDeviceInfoFile"];
  // A path that the runtime gave is not ours to remove.
  if (typeof path !== "string") return;
  if (!path.startsWith(`${DEVICE_INFO_DIR}/cni/`)) return;
  try {
    removeDeviceInfo(path);
  } catch (error) {
    log.warn("Left a device info file behind", { error: String(error) });
  }
}
