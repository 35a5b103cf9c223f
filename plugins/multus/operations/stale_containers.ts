/**
 * Releases recorded containers that the runtime no longer lists.
 *
 * Several multus networks, several runtimes and the Go version can share `cniDir`.
 * The runtime lists the attachments of a single network, so a container that is not
 * in its list might still be running.
 *
 * @module
 */

import type {
  AttachmentCache,
  CachedAttachment,
} from "../../../libcni/cache.ts";
import { dropRecycledNetns } from "../../../libcni/operation.ts";
import { leadsToSandbox } from "../../../cni/call/netns_existence.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import { describeError } from "../../../base/error.ts";
import { describeAll, detachEach } from "./del.ts";
import {
  joinAttachments,
  listCachedAttachments,
} from "../records/cached_attachments.ts";
import {
  interfaceNameOf,
  type NetworkAttachment,
} from "../model/attachment.ts";
import type { Delegate } from "../model/delegate.ts";
import type { ScratchState } from "../records/scratch_cache.ts";
import { lockContainer, type Session } from "./session.ts";

/** A container, and the files of its attachments in libcni's cache. */
export interface StaleContainer {
  readonly containerId: string;
  readonly paths: readonly string[];
}

/**
 * Detaches containers from their networks and removes their records, except
 * containers with another operation in progress, which are logged.
 *
 * @returns The failures
 */
export async function releaseContainers(
  session: Session,
  containers: readonly StaleContainer[],
): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const stale of containers) {
    try {
      await release(session, stale);
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}

/**
 * Lists the recorded containers to release.
 *
 * A container belongs to the network that its scratch file names. If the file names
 * none, as in Go multus, the container is released only after all its known sandboxes
 * have been deleted.
 *
 * Containers with a record that is newer than this process are kept, because the
 * runtime might have created its list earlier.
 *
 * @param valid The runtime's attachments
 * @param attachments The attachments in libcni's cache
 */
export function listStale(
  session: Session,
  valid: readonly AttachmentId[],
  attachments: readonly CachedAttachment[],
): StaleContainer[] {
  const { scratch } = session;
  const spared = new Set(valid.map(({ containerId }) => containerId));
  const isSpared = (containerId: string): boolean => spared.has(containerId);
  const recorded = new Map<string, CachedAttachment[]>();
  for (const containerId of scratch.list(isSpared)) {
    recorded.set(containerId, []);
  }
  for (const attachment of attachments) {
    const { containerId } = attachment;
    if (isSpared(containerId)) continue;
    const others = recorded.get(containerId) ?? [];
    recorded.set(containerId, [...others, attachment]);
  }
  return [...recorded]
    .filter(([containerId, cached]) =>
      !isYounger(session, containerId, cached) &&
      isOurs(session, scratch.readUsable(containerId), cached)
    )
    .map(([containerId, cached]) => ({
      containerId,
      paths: cached.map(({ path }) => path),
    }));
}

/** Reports whether a record of a container is newer than this call. */
function isYounger(
  session: Session,
  containerId: string,
  cached: readonly CachedAttachment[],
): boolean {
  const start = startOf(session);
  return cached.some(({ since }) => since > start) ||
    session.scratch.isYounger(containerId, start);
}

/** The runtime listed its attachments before this time. */
function startOf({ call: { context } }: Session): Date {
  return context.startedAt ?? new Date(performance.timeOrigin);
}

/**
 * Reports whether this call is permitted to release a container that the runtime does
 * not list.
 */
function isOurs(
  { call }: Session,
  { owner }: ScratchState,
  cached: readonly CachedAttachment[],
): boolean {
  if (owner !== "") return owner === call.network;
  return cached.length > 0 &&
    cached.every(({ netns }) =>
      leadsToSandbox(netns, call.hostNetns) === false
    );
}

/**
 * Runs DEL for a container, like the runtime would. An attachment that was added
 * after the list has a record that is newer than this call.
 */
async function release(
  session: Session,
  { containerId, paths }: StaleContainer,
): Promise<void> {
  const { call, scratch, cache, log } = session;
  let lock: Disposable | undefined;
  try {
    lock = await lockContainer(session, containerId);
  } catch (error) {
    log.warn("Keeping a container that is in use", {
      containerId,
      error: describeError(error),
    });
    return;
  }
  using _lock = lock;
  const state = scratch.readUsable(containerId);
  const cached = cache.readAgain(containerId, paths);
  // The record might have changed before this process got the lock.
  const isKept = isYounger(session, containerId, cached) ||
    !isOurs(session, state, cached);
  if (isKept) return;
  const known = {
    containerId,
    netns: cached.find(({ netns }) => netns !== "")?.netns ?? "",
    ifName: guessIfName(state.delegates, cached),
  };
  // The path might already resolve to a different namespace.
  const { netns } = dropRecycledNetns(
    { context: call.context, log },
    known,
  );
  const args = { ...call.args, ...known, netns, args: "" };
  const ofContainer = { ...session, call: { ...call, args } };
  await detachAll(ofContainer, state, cached);
  scratch.remove(containerId);
}

/**
 * Detaches a container from the networks in its scratch file. An attachment that only
 * libcni's cache contains might belong to a different network, so it is released only
 * after its sandbox has been deleted.
 */
async function detachAll(
  session: Session,
  { delegates }: ScratchState,
  cached: readonly CachedAttachment[],
): Promise<void> {
  const { call: { args, hostNetns }, log } = session;
  const described = describeAll(session, delegates);
  const ours = cached.filter((found) =>
    isDescribed(described, found) ||
    leadsToSandbox(found.netns, hostNetns) === false
  );
  const source: Pick<AttachmentCache, "listAttachments"> = {
    listAttachments: () => ours,
  };
  const known = listCachedAttachments(source, args, log);
  await detachEach(session, joinAttachments(described, known));
}

function isDescribed(
  described: readonly NetworkAttachment[],
  { network, ifName }: CachedAttachment,
): boolean {
  return described.some((known) =>
    known.network.name === network && known.conf.ifName === ifName
  );
}

/** Finds the master's interface name, which only libcni's cache contains. */
function guessIfName(
  delegates: readonly Delegate[],
  cached: readonly CachedAttachment[],
): string {
  const others = delegates.slice(1).map((_, index) =>
    interfaceNameOf(delegates, index + 1, "")
  );
  const master = cached.find(({ network, ifName }) =>
    network === delegates[0]?.conf.name && !others.includes(ifName)
  );
  return (master ?? findOldest(cached))?.ifName ?? DEFAULT_IFNAME;
}

/** The kubelet's name for the interface of a pod's first network. */
const DEFAULT_IFNAME = "eth0";

/** Finds the oldest attachment: the master is attached first. */
function findOldest(
  cached: readonly CachedAttachment[],
): CachedAttachment | undefined {
  const isDefault = ({ ifName }: CachedAttachment): number =>
    ifName === DEFAULT_IFNAME ? 1 : 0;
  const [oldest] = cached.toSorted((left, right) =>
    left.since.getTime() - right.since.getTime() ||
    isDefault(right) - isDefault(left)
  );
  return oldest;
}
