/**
 * Detaching a pod from its networks.
 *
 * @module
 */

import { describeError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import { type TearDownStep, tryAll } from "../base/rollback.ts";
import type { CachedAttachment } from "../libcni/mod.ts";
import { buildCapabilityArgs } from "./capability_args.ts";
import {
  lockPodToDetach,
  LOOPBACK_IFNAME,
  type NodeTools,
  uninitialized,
} from "./node.ts";
import type { Pod } from "./pod.ts";
import {
  findNetns,
  type PodAttachment,
  readCachedPod,
  restoreAttachment,
} from "./pod_attachments.ts";
import { describePod } from "./set_up.ts";

/**
 * Detaches a pod from its networks with the configuration and arguments of its
 * set-up. If nothing is cached, it is detached from the default network: its
 * set-up might have been killed.
 *
 * Source: kubelet `TearDownPod`.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function tearDownPod(
  node: NodeTools,
  pod: Pod,
  signal: AbortSignal,
): Promise<void> {
  using _lock = await lockPodToDetach(node, pod.containerId, signal);
  const netns = findNetns(node, pod);
  const { loopback, networks } = readCachedPod(node, pod);
  const steps = networks.map((cached): TearDownStep => [
    `detach the pod from network "${cached.network}" as "${cached.ifName}"`,
    () => del(node, restoreAttachment(cached, netns), signal),
  ]);
  try {
    if (networks.length > 0) await tryAll(steps);
    else await delFromDefault(node, { ...pod, netns }, signal);
  } finally {
    await delLoopback(node, { ...pod, netns }, loopback, signal);
  }
}

async function del(
  { runtime }: NodeTools,
  { list, conf }: PodAttachment,
  signal: AbortSignal,
): Promise<void> {
  const options = { continueOnDelErrors: true, signal };
  await runtime.delNetworkList(list, conf, options);
}

async function delFromDefault(
  node: NodeTools,
  pod: Pod,
  signal: AbortSignal,
): Promise<void> {
  const choice = await node.defaultNetwork.get(signal);
  // A missing plugin does not stop the other plugins.
  const list = choice.network?.list ?? choice.readable;
  if (list === undefined) throw uninitialized(node.confDir, choice);
  const conf = describePod(pod, buildKnownArgs(node, pod));
  await del(node, { list, conf }, signal);
}

/** Set-up would have refused an invalid annotation, so tear-down ignores it. */
function buildKnownArgs({ podCidrs, log }: NodeTools, pod: Pod): JsonObject {
  try {
    return buildCapabilityArgs(pod, podCidrs);
  } catch (error) {
    const { containerId } = pod;
    log.warn("Tearing down without the pod's annotations", {
      containerId,
      error: describeError(error),
    });
    return buildCapabilityArgs({ ...pod, annotations: {} }, podCidrs);
  }
}

/** A loopback that stays up does no harm: its namespace goes away. */
async function delLoopback(
  node: NodeTools,
  pod: Pod,
  cached: CachedAttachment | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { loopback: list, log } = node;
  const conf = { ...describePod(pod, {}), ifName: LOOPBACK_IFNAME };
  try {
    if (cached) await del(node, restoreAttachment(cached, pod.netns), signal);
    else if (list) await del(node, { list, conf }, signal);
  } catch (error) {
    log.warn("Cannot bring down the loopback", {
      containerId: pod.containerId,
      error: describeError(error),
    });
  }
}
