/**
 * What all operations on the pods of a node share.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../cni/error.ts";
import type {
  AttachmentLocks,
  NetworkConfList,
  NetworkRuntime,
} from "../cni/libcni/mod.ts";
import type { Log } from "../cni/log.ts";
import type { Cidr } from "../net/cidr.ts";
import type { NetworkChoice, UsableNetwork } from "./choose_network.ts";
import type { DefaultNetwork } from "./default_network.ts";

/** What an operation works with. */
export interface Node {
  readonly confDir: string;
  readonly defaultNetwork: DefaultNetwork;
  /** The loopback's network, if pods have one. */
  readonly loopback: NetworkConfList | undefined;
  /** The node's, one of a family; none while they are not known. */
  readonly podCidrs: readonly Cidr[];
  /** Runs plugins; whoever calls it has the lock. */
  readonly runtime: NetworkRuntime;
  readonly locks: AttachmentLocks;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  readonly log: Log;
}

/**
 * Gets the network that pods can be attached to now.
 *
 * Source: kubelet pkg/kubelet/dockershim/network/cni/cni.go `checkInitialized`.
 *
 * @throws {CniError} 50 With kubelet's words and the reason, if there is none
 */
export function getReadyNetwork(
  { confDir, podCidrs }: Pick<Node, "confDir" | "podCidrs">,
  choice: NetworkChoice,
): UsableNetwork {
  const { network, loopbackError } = choice;
  if (network === undefined) throw uninitialized(confDir, choice);
  if (network.capabilities.includes("ipRanges") && podCidrs.length === 0) {
    throw notReady("cni config needs ipRanges but no PodCIDR set");
  }
  if (loopbackError !== undefined) {
    throw notReady("cni loopback uninitialized", describeError(loopbackError));
  }
  return network;
}

/** Makes the error of a node that has no network at all. */
export function uninitialized(
  confDir: string,
  { skipped }: Pick<NetworkChoice, "skipped">,
): CniError {
  const reasons = skipped
    .map(({ path, error }) => `"${path}": ${describeError(error)}`);
  return notReady(
    "cni config uninitialized",
    reasons.join("; ") || `there is no network configuration in "${confDir}"`,
  );
}

function notReady(message: string, details = ""): CniError {
  return new CniError(ErrorCode.PluginNotAvailable, message, { details });
}

/**
 * Waits until nobody else, in no other process, is at work on a container. On a
 * disk that is full or read-only it must be detachable all the same, so then
 * there is no lock.
 *
 * @throws {CniError} 3 or 4 if it is no container ID, 11 at the signal
 */
export async function tryLockContainer(
  { locks, log }: Pick<Node, "locks" | "log">,
  containerId: string,
  signal: AbortSignal,
): Promise<Disposable | undefined> {
  try {
    return await locks.lockContainer(containerId, { signal });
  } catch (error) {
    if (toCniError(error).code !== ErrorCode.IoFailure) throw error;
    log.warn("Going on without a lock", {
      containerId,
      error: describeError(error),
    });
    return undefined;
  }
}
