/**
 * Cached attachments of pods.
 *
 * @module
 */

import {
  type CachedAttachment,
  type NetworkConfList,
  type NetworkRuntime,
  parseNetworkConfList,
  type RuntimeConf,
} from "../libcni/mod.ts";
import { leadsToSandbox } from "../cni/call/netns_existence.ts";
import { LOOPBACK_NETWORK, type NodeTools } from "./node.ts";
import { type PodSandbox, SANDBOX_KEY } from "./pod.ts";

/** An attachment with the input for CHECK and DEL. */
export interface PodAttachment {
  readonly list: NetworkConfList;
  readonly conf: RuntimeConf;
}

/** A container's attachments, with the loopback kept apart. */
export interface CachedPod {
  readonly loopback: CachedAttachment | undefined;
  readonly networks: readonly CachedAttachment[];
}

/** Finds a container's attachments, even if the default network has changed since. */
export function readCachedPod(
  { runtime }: {
    readonly runtime: Pick<NetworkRuntime, "listCachedAttachments">;
  },
  { containerId }: Pick<PodSandbox, "containerId">,
): CachedPod {
  const cached = runtime.listCachedAttachments(containerId);
  const isLoopback = ({ network }: CachedAttachment): boolean =>
    network === LOOPBACK_NETWORK;
  return {
    loopback: cached.find(isLoopback),
    networks: cached.filter((attachment) => !isLoopback(attachment)),
  };
}

/**
 * Restores the input of ADD.
 *
 * @param netns The namespace, or "" if it was deleted
 * @throws {CniError} 6 or 7 If the cached configuration cannot be read
 */
export function restoreAttachment(
  { config, containerId, ifName, cniArgs, capabilityArgs }: CachedAttachment,
  netns: string,
): PodAttachment {
  const conf = { containerId, netns, ifName, args: cniArgs, capabilityArgs };
  return { list: parseNetworkConfList(config), conf };
}

/** Reports whether an attachment belongs to a pod. */
export function isOfPod(
  { cniArgs, containerId }: CachedAttachment,
): boolean {
  return cniArgs.some(([key, value]) =>
    key === SANDBOX_KEY && value === containerId
  );
}

/**
 * Returns the path of a sandbox's namespace, or "" with a warning if it was
 * deleted.
 *
 * A path such as /proc/PID/ns/net leads to the host's namespace after a host
 * process has reused the PID. That also counts as deleted.
 */
export function findNetns(
  { hostNetns, log }: Pick<NodeTools, "hostNetns" | "log">,
  { netns, containerId }: Pick<PodSandbox, "netns" | "containerId">,
): string {
  const isThere = netns !== "" && leadsToSandbox(netns, hostNetns) !== false;
  if (isThere) return netns;
  log.warn("The network namespace was deleted", { containerId, netns });
  return "";
}
