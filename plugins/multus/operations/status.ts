/**
 * STATUS: checks that pods can be attached.
 *
 * @module
 */

import { JoinedSignal } from "../../../base/deadline.ts";
import { CniError, ErrorCode, toCniError } from "../../../base/error.ts";
import { toNetworkConfList } from "../../../libcni/conf.ts";
import { type Delegate, isList } from "../model/delegate.ts";
import { requireReady } from "../pod/pod.ts";
import { findMaster } from "../select/select.ts";
import type { Session } from "./session.ts";
import { withMultusError } from "../model/failure.ts";

/**
 * Time limit for finding the master network through the API server, in milliseconds.
 * containerd and CRI-O wait for STATUS before they respond to the kubelet, which
 * treats a slow runtime as down.
 */
const API_MS = 2500;

/**
 * Runs STATUS of the master network's plugins. It only waits for the API server, and
 * only if the master network is a NetworkAttachmentDefinition.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdStatus`.
 *
 * @throws {CniError} The first plugin's error; 50 if the readiness file is missing,
 * the API server is unavailable, or the master network is not found
 */
export async function status(session: Session): Promise<void> {
  const { runtime, call: { config, signal } } = session;
  const { conf } = await withMultusError({}, () => {
    requireReady(config.readinessIndicatorFile);
    return requireMaster(session);
  });
  const list = isList(conf) ? conf : toNetworkConfList(conf);
  await runtime.statusNetworkList(list, { signal });
}

/** Also fails for an unusable kubeconfig, because every ADD would fail. */
async function requireMaster(session: Session): Promise<Delegate> {
  const { cluster, call: { signal } } = session;
  try {
    if (cluster.isConfigured) await cluster.client();
    using limit = new JoinedSignal(API_MS, signal);
    return await findMaster(session, limit.signal);
  } catch (error) {
    const { message, details } = toCniError(error);
    throw new CniError(ErrorCode.PluginNotAvailable, message, { details });
  }
}
