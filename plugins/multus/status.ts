/**
 * STATUS: whether pods could be attached.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../../cni/error.ts";
import { deadline } from "../../cni/deadline.ts";
import { toNetworkConfList } from "../../cni/libcni/conf.ts";
import { type Delegate, isList } from "./networks/delegate.ts";
import { asMultus } from "./failure.ts";
import { requireReady } from "./pod/readiness.ts";
import { findMaster } from "./networks/select.ts";
import type { Session } from "./session.ts";

/**
 * How long the API may take to answer what the master network is, in
 * milliseconds. containerd and CRI-O wait for STATUS before they answer the
 * kubelet, which takes a runtime that is slow to answer for one that is down.
 */
const API_MS = 2500;

/**
 * Checks that the master network could serve ADD, as its plugins say. It waits
 * for nothing but the API, and for that only if it has the master network.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdStatus`.
 *
 * @throws {CniError} The first plugin's own; 50 if the readiness file is
 *   missing, Kubernetes cannot be asked, or the master network is not found
 */
export async function status(session: Session): Promise<void> {
  const { runtime, call: { config, signal } } = session;
  const { conf } = await asMultus({}, () => {
    requireReady(config.readinessIndicatorFile);
    return requireMaster(session);
  });
  const list = isList(conf) ? conf : toNetworkConfList(conf);
  await runtime.statusNetworkList(list, { signal });
}

/** A kubeconfig of no use keeps every pod from being attached, too. */
async function requireMaster(session: Session): Promise<Delegate> {
  const { cluster, call: { signal } } = session;
  try {
    if (cluster.isConfigured) await cluster.client();
    return await findMaster(session, deadline(API_MS, signal));
  } catch (error) {
    const { message, details } = toCniError(error);
    throw new CniError(ErrorCode.PluginNotAvailable, message, { details });
  }
}
