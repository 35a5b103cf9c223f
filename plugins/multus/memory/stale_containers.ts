/**
 * Containers that multus remembers and the runtime no longer has.
 *
 * `cniDir` may be shared: by several multus networks, by several runtimes, and
 * with the Go version. The runtime lists the attachments of one network, so what
 * others have attached is not in its list and is alive all the same.
 *
 * @module
 */

import type {
  AttachmentCache,
  CachedAttachment,
} from "../../../cni/libcni/cache.ts";
import { dropRecycledNetns } from "../../../cni/libcni/recycled_netns.ts";
import type { ValidAttachment } from "../../../cni/types.ts";
import {
  joinAttachments,
  type KnownAttachment,
  listCachedAttachments,
} from "./cached_attachments.ts";
import type { Delegate } from "../networks/delegate.ts";
import { interfaceNameOf } from "../delegate_conf.ts";
import { lockContainer } from "./container_lock.ts";
import { describeAll, detachEach } from "../del.ts";
import { isSandboxGone } from "./sandbox.ts";
import type { ScratchState } from "./scratch_cache.ts";
import type { Session } from "../session.ts";

/**
 * Detaches such containers from their networks and forgets them.
 *
 * A container belongs to the network that its scratch file names. One that no
 * file names a network for (the Go version writes none) is released only if
 * every sandbox that it is known to have had is gone.
 *
 * Containers that were remembered after this process has started are spared: the
 * runtime may have made its list before.
 *
 * @param valid The attachments that the runtime has
 * @returns What failed
 */
export async function releaseStaleContainers(
  session: Session,
  valid: readonly ValidAttachment[],
): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const containerId of listStale(session, valid)) {
    try {
      await release(session, containerId);
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}

function listStale(
  session: Session,
  valid: readonly ValidAttachment[],
): string[] {
  const { scratch, cache } = session;
  const spared = new Set(valid.map(({ containerId }) => containerId));
  const remembered = new Map<string, CachedAttachment[]>();
  for (const containerId of scratch.list()) remembered.set(containerId, []);
  for (const attachment of cache.listAttachments()) {
    const { containerId, since } = attachment;
    const others = remembered.get(containerId) ?? [];
    remembered.set(containerId, [...others, attachment]);
    if (since.getTime() > performance.timeOrigin) spared.add(containerId);
  }
  return [...remembered]
    .filter(([containerId]) => !spared.has(containerId))
    .filter(([containerId]) => !scratch.isYounger(containerId, processStart()))
    .filter(([containerId, cached]) =>
      isOurs(session, scratch.readWhatIsLeft(containerId), cached)
    )
    .map(([containerId]) => containerId);
}

function processStart(): Date {
  return new Date(performance.timeOrigin);
}

/** Says whether a container that the runtime does not have is ours to release. */
function isOurs(
  { call }: Session,
  { owner }: ScratchState,
  cached: readonly CachedAttachment[],
): boolean {
  if (owner !== "") return owner === call.network;
  return cached.length > 0 &&
    cached.every(({ netns }) => isSandboxGone(netns, call.hostNetns));
}

/** Runs DEL for a container as the runtime would have. */
async function release(session: Session, containerId: string): Promise<void> {
  using _lock = await lockContainer(session, containerId);
  const { call, scratch, cache, log } = session;
  const state = scratch.readWhatIsLeft(containerId);
  const cached = cache.listAttachments(containerId);
  // Somebody may have changed it before the lock was ours.
  if (!isOurs(session, state, cached)) return;
  const known = {
    containerId,
    netns: cached.find(({ netns }) => netns !== "")?.netns ?? "",
    ifName: guessIfName(state.delegates, cached),
  };
  // Nobody says that the path still leads where it did.
  const { netns } = dropRecycledNetns({ ...call.running, log }, known);
  const args = { ...call.args, ...known, netns, args: "" };
  const ofContainer = { ...session, call: { ...call, args } };
  await detachAll(ofContainer, state, cached);
  scratch.remove(containerId);
}

/**
 * Detaches a container from the networks in its scratch file. An attachment that
 * only libcni's cache has may be another network's: it is released when its
 * sandbox is gone.
 */
async function detachAll(
  session: Session,
  { delegates }: ScratchState,
  cached: readonly CachedAttachment[],
): Promise<void> {
  const { call: { args, hostNetns }, log } = session;
  const told = describeAll(session, delegates);
  const ours = cached.filter((found) =>
    isTold(told, found) || isSandboxGone(found.netns, hostNetns)
  );
  const source: Pick<AttachmentCache, "listAttachments"> = {
    listAttachments: () => ours,
  };
  const known = listCachedAttachments(source, args, log);
  await detachEach(session, joinAttachments(told, known));
}

function isTold(
  told: readonly KnownAttachment[],
  { network, ifName }: CachedAttachment,
): boolean {
  return told.some((known) =>
    known.network.name === network && known.conf.ifName === ifName
  );
}
/** Nothing but libcni's cache has the name that the runtime gave the master's interface. */
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

/** What kubelets call the interface of a pod's first network. */
const DEFAULT_IFNAME = "eth0";

/** The master is attached first, as far as the file system's clock can tell. */
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
