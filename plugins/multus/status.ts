/**
 * STATUS: whether pods could be attached.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../../cni/error.ts";
import { toNetworkConfList } from "../../cni/libcni/conf.ts";
import { isList } from "./delegate.ts";
import { waitUntilReady } from "./readiness.ts";
import { findMaster } from "./select.ts";
import type { Session } from "./session.ts";

/**
 * Checks that the master network could serve ADD, as its plugins say.
 *
 * Source: multus-cni pkg/multus/multus.go `CmdStatus`.
 *
 * @throws {CniError} The first plugin's own; 11 if the network is not ready, 50
 *   if ADD could not ask Kubernetes
 */
export async function status(session: Session): Promise<void> {
  const { runtime, call: { config, signal } } = session;
  await waitUntilReady(config.readinessIndicatorFile, signal);
  await requireClient(session);
  const { conf } = await findMaster(session);
  const list = isList(conf) ? conf : toNetworkConfList(conf);
  await runtime.statusNetworkList(list, { signal });
}

/** A kubeconfig of no use keeps every pod from being attached. */
async function requireClient({ cluster }: Session): Promise<void> {
  if (!cluster.isConfigured) return;
  try {
    await cluster.client();
  } catch (error) {
    const { message, details } = toCniError(error);
    throw new CniError(ErrorCode.PluginNotAvailable, message, { details });
  }
}
