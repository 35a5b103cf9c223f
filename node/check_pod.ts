/**
 * Checking that a pod is still attached as set-up left it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import { type Node, tryLockContainer } from "./node.ts";
import type { PodSandbox } from "./pod.ts";
import { readCachedPod, restoreAttachment } from "./pod_attachments.ts";

/**
 * Checks a pod's loopback and its networks, with the configuration and the
 * arguments that it was set up with.
 *
 * @throws {CniError} The error of the first plugin that finds a difference; 3 if
 *   the pod has no attachment
 * @throws {CheckNotSupportedError} 1 If its network's version has no CHECK
 */
export async function checkPod(
  node: Node,
  pod: PodSandbox,
  signal: AbortSignal,
): Promise<void> {
  const { containerId, netns } = pod;
  using _lock = await tryLockContainer(node, containerId, signal);
  const { loopback, networks } = readCachedPod(node, pod);
  if (networks.length === 0) {
    throw new CniError(
      ErrorCode.UnknownContainer,
      `Cannot check container "${containerId}": it is attached to no network`,
    );
  }
  for (const cached of loopback ? [loopback, ...networks] : networks) {
    const { list, conf } = restoreAttachment(cached, netns);
    await node.runtime.checkNetworkList(list, conf, { signal });
  }
}
