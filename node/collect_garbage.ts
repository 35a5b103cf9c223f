/**
 * Removing what is left of pods that no longer exist.
 *
 * @module
 */

import type { CachedAttachment, NetworkConfList } from "../libcni/mod.ts";
import { isTaken } from "../base/files/io.ts";
import { type TearDownStep, tryAll } from "../base/rollback.ts";
import type { MaybePromise } from "../base/waiting.ts";
import { listPossible } from "../cni/call/valid_attachments.ts";
import type { AttachmentId } from "../cni/config/types.ts";
import type { NodeTools } from "./node.ts";
import { POD_IFNAME, type PodSandbox } from "./pod.ts";
import { findNetns, isOfPod, restoreAttachment } from "./pod_attachments.ts";

/** How a caller names a pod that stays. */
export type ValidPod = Pick<PodSandbox, "containerId">;

/** The pods that stay, or a function that lists them once nothing else is running. */
export type ValidPods =
  | readonly ValidPod[]
  | (() => MaybePromise<readonly ValidPod[]>);

/** A garbage collection. */
export interface Collection {
  readonly validPods: ValidPods;
  /** Further pods that stay; read once nothing else is running. */
  readonly unlisted: ReadonlySet<ValidPod>;
  readonly signal: AbortSignal;
}

/**
 * Detaches pods that no longer exist from all networks, including former default
 * networks, and runs GC of the default network.
 *
 * @throws The only failure, or an AggregateError of several
 */
export async function collectPodGarbage(
  node: NodeTools,
  { validPods, unlisted, signal }: Collection,
): Promise<void> {
  const { runtime, locks, defaultNetwork } = node;
  using _lock = await locks.lockExclusively({ signal });
  const valid = typeof validPods === "function" ? await validPods() : validPods;
  const containerIds = new Set(
    [...valid, ...unlisted].map(({ containerId }) => containerId),
  );
  const { network, readable } = await defaultNetwork.get(signal);
  const list = network?.list ?? readable;
  const { attachments: cached, unreadable } = runtime.readCache();
  const stale = cached.filter((attachment) =>
    isOfPod(attachment) && !containerIds.has(attachment.containerId)
  );
  const collectOf = (list: NetworkConfList): TearDownStep => [
    `collect the garbage of network "${list.name}"`,
    () =>
      runtime.gcNetworkList(list, {
        validAttachments: listValid(containerIds, [
          ...cached,
          ...listPossible(unreadable, list.name),
        ]),
        // DEL has removed the files of those that it detached.
        listing: {
          attachments: cached.filter(({ path }) => isTaken(path)),
          unreadable,
        },
        useCachedConfig: true,
        continueOnDelErrors: true,
        signal,
      }),
  ];
  await tryAll([
    ...delAll(node, stale, signal),
    ...(list ? [collectOf(list)] : []),
  ]);
}

function delAll(
  node: NodeTools,
  stale: readonly CachedAttachment[],
  signal: AbortSignal,
): TearDownStep[] {
  return stale.map((attachment) => [
    `detach container "${attachment.containerId}" from network ` +
    `"${attachment.network}" as "${attachment.ifName}"`,
    () => delStale(node, attachment, signal),
  ]);
}

/** Unlike the library's GC, this never passes the host's namespace to a plugin. */
async function delStale(
  node: NodeTools,
  attachment: CachedAttachment,
  signal: AbortSignal,
): Promise<void> {
  const netns = findNetns(node, attachment);
  const { list, conf } = restoreAttachment(attachment, netns);
  if (list.disableGc) return;
  const options = { continueOnDelErrors: true, signal };
  await node.runtime.delNetworkList(list, conf, options);
}

/**
 * Lists the attachments that stay: the cached ones, plus one for each pod in case
 * its cache file was lost.
 */
function listValid(
  containerIds: ReadonlySet<string>,
  cached: readonly AttachmentId[],
): AttachmentId[] {
  const others = cached.filter(({ containerId, ifName }) =>
    containerIds.has(containerId) && ifName !== POD_IFNAME
  );
  return [
    ...[...containerIds]
      .map((containerId) => ({ containerId, ifName: POD_IFNAME })),
    ...others.map(({ containerId, ifName }) => ({ containerId, ifName })),
  ];
}
