/**
 * Attaching a pod to its networks.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import { deadline } from "../base/deadline.ts";
import {
  findValue,
  type JsonObject,
  type JsonValue,
  objectOf,
  parseJson,
} from "../base/json/json.ts";
import {
  injectConf,
  type NetworkConfList,
  parseNetworkConfList,
  type RuntimeConf,
} from "../libcni/mod.ts";
import type { Result } from "../cni/result/result.ts";
import { isSameFile } from "../base/files/same_file.ts";
import { buildCapabilityArgs } from "./capability_args.ts";
import {
  getReadyNetwork,
  LOOPBACK_IFNAME,
  LOOPBACK_NETWORK,
  type NodeTools,
} from "./node.ts";
import { checkPodArgs, listPodArgs, type Pod, POD_IFNAME } from "./pod.ts";
import { getResultIps, type PodIps } from "./pod_ips.ts";
import { encodeJson } from "../base/json/json_bytes.ts";
import { Rollback, UNDO_MS } from "../base/rollback.ts";

/** The attachment of a pod. */
export interface PodNetwork extends PodIps {
  /** Name of the network. */
  readonly network: string;
  /** The last plugin's result, in its own version. */
  readonly document: JsonObject;
  /** The decoded result. */
  readonly result: Result;
}

/**
 * Attaches a pod to its loopback and to the default network. If that fails, or
 * the pod has no address afterwards, it is detached again. The undo has its own
 * deadline, because the operation's deadline might have passed.
 *
 * Source: kubelet `SetUpPod`, containerd `setupPodNetwork`.
 */
export async function setUpPod(
  node: NodeTools,
  pod: Pod,
  signal: AbortSignal,
): Promise<PodNetwork> {
  const { runtime } = node;
  checkPodArgs(pod);
  refuseHost(node, pod);
  const { locks, log } = node;
  using _lock = await locks.lockContainer(pod.containerId, { signal, log });
  refuseAttached(node, pod);
  const { list } = getReadyNetwork(node, await node.defaultNetwork.get(signal));
  const network = withLabels(list, pod.labels);
  const conf = describePod(pod, buildCapabilityArgs(pod, node.podCidrs));
  await using rollback = new Rollback(log);
  await addLoopback(node, conf, { rollback, signal });
  const { result, document } = await runtime.addNetworkListOrUndo(
    network,
    conf,
    { signal },
  );
  rollback.onFailure(
    `detach the pod from network "${network.name}"`,
    () => undo(node, network, conf),
  );
  const ips = getResultIps(result, network.name, pod);
  rollback.commit();
  return { network: network.name, result, document, ...ips };
}

/** Describes a pod's attachment to its default network. */
export function describePod(
  pod: Pod,
  capabilityArgs: JsonObject,
): RuntimeConf {
  const { containerId, netns } = pod;
  const args = listPodArgs(pod);
  return { containerId, netns, ifName: POD_IFNAME, args, capabilityArgs };
}

/** A foreign plugin might undo its ADD on the host's interfaces. */
function refuseHost({ hostNetns }: NodeTools, { netns }: Pod): void {
  if (!isSameFile(netns, hostNetns)) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    `Cannot attach network namespace "${netns}": it is the host's own`,
  );
}

/** Refuses a pod that is set up already, because undoing a second set-up would detach it. */
function refuseAttached(
  { runtime }: NodeTools,
  { containerId }: Pod,
): void {
  const attached = runtime.listCachedAttachments(containerId)
    .find(({ network }) => network !== LOOPBACK_NETWORK);
  if (attached === undefined) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot set up container "${containerId}": it is attached to network ` +
      `"${attached.network}" as "${attached.ifName}"; tear it down first`,
  );
}

async function addLoopback(
  node: NodeTools,
  conf: RuntimeConf,
  { rollback, signal }: { rollback: Rollback; signal: AbortSignal },
): Promise<void> {
  const { runtime, loopback } = node;
  if (loopback === undefined) return;
  const own = { ...conf, ifName: LOOPBACK_IFNAME };
  // Before ADD: a failed ADD also needs a DEL.
  rollback.onFailure("take the loopback down", () => undo(node, loopback, own));
  await runtime.addNetworkList(loopback, own, { signal });
}

async function undo(
  { runtime }: NodeTools,
  network: NetworkConfList,
  conf: RuntimeConf,
): Promise<void> {
  await runtime.delNetworkList(network, conf, {
    continueOnDelErrors: true,
    signal: deadline(UNDO_MS),
  });
}

/**
 * Builds the network of one pod, whose plugins find the pod's labels in
 * `args.cni.labels`. The labels become part of the cached configuration, for
 * CHECK and DEL.
 *
 * Source: CNI CONVENTIONS.md, "args in network config".
 */
export function withLabels(
  list: NetworkConfList,
  labels: Readonly<Record<string, string>> = {},
): NetworkConfList {
  const pairs = Object.entries(labels).map(([key, value]) => ({ key, value }));
  if (pairs.length === 0) return list;
  const plugins = list.plugins.map(({ document }) =>
    injectConf(document, {
      args: addLabels(findValue(document, "args"), pairs),
    })
  );
  const document = objectOf(parseJson(list.bytes) as JsonValue);
  return parseNetworkConfList(
    encodeJson({ ...document, loadOnlyInlinedPlugins: true, plugins }),
  );
}

function addLabels(
  args: JsonValue | undefined,
  labels: JsonObject[],
): JsonObject {
  const others = objectOf(args);
  return { ...others, cni: { ...objectOf(others["cni"]), labels } };
}
