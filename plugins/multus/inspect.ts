/**
 * What tools may ask about multus.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, toCniError } from "../../base/error.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { MissingNetworks, PodAttachment } from "./missing_networks.ts";

export type { MissingNetworks };
export {
  MULTUS_LOG_LEVELS,
  type MultusLogLevel,
} from "./operations/operation_log.ts";

/**
 * Describes what is wrong with the value of the annotation
 * `k8s.v1.cni.cncf.io/networks`; undefined if nothing is.
 *
 * @param namespace The pod's
 */
export async function findNetworksProblem(
  networks: string,
  namespace: string,
): Promise<string | undefined> {
  const { parseNetworks } = await import("./select/annotations.ts");
  try {
    parseNetworks(networks, namespace);
    return undefined;
  } catch (error) {
    return toCniError(error).message;
  }
}

/** How long to wait for the API server in all, in ms. */
const LIMIT_MS = 5000;

/** Where to find out which networks pods lack. */
export interface MissingNetworksQuery {
  readonly kubeconfig: string;
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** The attachments of the node, which name its pods. */
  readonly attachments: readonly PodAttachment[];
}

/**
 * Asks the API server which of the node's pods run without networks that they
 * request. Pods that it cannot be asked about are left out.
 */
export async function readMissingNetworks(
  { kubeconfig, env, signal, attachments }: MissingNetworksQuery,
): Promise<MissingNetworks[]> {
  const pods = new Set(
    attachments.flatMap(({ pod, isLive }) => isLive && pod ? [pod] : []),
  );
  const found: MissingNetworks[] = [];
  if (pods.size === 0) return found;
  const { isNotFound, KubeError } = await import("../../kube/kube_error.ts");
  const { openKubeClient } = await import("../../kube/client.ts");
  const { findMissingNetworks } = await import("./missing_networks.ts");
  using limit = new JoinedSignal(LIMIT_MS, signal);
  const limits = { signal: limit.signal, overallMs: LIMIT_MS };
  try {
    using client = await openKubeClient({ kubeconfig, env }, limits);
    for (const pod of client === undefined ? [] : pods) {
      const [namespace = "", name = ""] = pod.split("/");
      const object = await client?.getPod(namespace, name, limits)
        .catch((error) => {
          // The runtime is still deleting its sandbox.
          if (!isNotFound(error)) throw error;
        });
      const networks = object &&
        await findMissingNetworks(object, () => Promise.resolve(attachments));
      if (networks?.length) found.push({ pod, networks });
    }
  } catch (error) {
    const isAnswer = error instanceof KubeError || error instanceof CniError;
    // Nothing is known of the rest.
    if (!isAnswer && !limit.signal.aborted) throw error;
  }
  return found;
}
