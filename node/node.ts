/**
 * State shared by all operations on a node's pods.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../base/error.ts";
import {
  type AttachmentLocks,
  type NetworkConfList,
  type NetworkRuntime,
  parseNetworkConfList,
} from "../libcni/mod.ts";
import { lockToDetach } from "../libcni/lock.ts";
import type { Log } from "../base/log/log.ts";
import type { Cidr } from "../net/cidr.ts";
import type { NetworkChoice, UsableNetwork } from "./choose_network.ts";
import type { DefaultNetwork } from "./default_network.ts";

/** The tools of an operation. */
export interface NodeTools {
  readonly confDir: string;
  readonly defaultNetwork: DefaultNetwork;
  /** The loopback's network, if pods have one. */
  readonly loopback: NetworkConfList | undefined;
  /** The node's PodCIDRs, one per family; empty until they are known. */
  readonly podCidrs: readonly Cidr[];
  /** Runs plugins. The caller holds the lock. */
  readonly runtime: NetworkRuntime;
  readonly locks: AttachmentLocks;
  /** Path of the host's network namespace. */
  readonly hostNetns: string;
  readonly log: Log;
}

/**
 * Returns the network that pods can be attached to now.
 *
 * Source: kubelet pkg/kubelet/dockershim/network/cni/cni.go `checkInitialized`.
 *
 * @throws {CniError} 50 with kubelet's message and the reason if none is ready
 */
export function getReadyNetwork(
  { confDir, podCidrs }: Pick<NodeTools, "confDir" | "podCidrs">,
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

/** Builds the error for a node without any network. */
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
 * Locks a container against all other operations, in every process.
 *
 * @throws {CniError} 3 or 4 if the container ID is invalid, 11 at the signal
 */
export async function lockPodToDetach(
  { locks, log }: Pick<NodeTools, "locks" | "log">,
  containerId: string,
  signal: AbortSignal,
): Promise<Disposable | undefined> {
  return await lockToDetach(
    containerId,
    log,
    () => locks.lockContainer(containerId, { signal, log }),
  );
}

/** Network name, the same in kubelet, CRI-O and containerd. */
export const LOOPBACK_NETWORK = "cni-loopback";

/** Its interface, in the cache and in CNI_IFNAME. */
export const LOOPBACK_IFNAME = "lo";

/**
 * Builds the network's configuration. It uses the first version that has CHECK,
 * which the Go plugin has supported since 0.8.
 */
export function buildLoopback(): NetworkConfList {
  const document = {
    cniVersion: "0.4.0",
    name: LOOPBACK_NETWORK,
    plugins: [{ type: "loopback" }],
  };
  return parseNetworkConfList(
    new TextEncoder().encode(JSON.stringify(document)),
  );
}
