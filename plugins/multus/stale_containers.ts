/**
 * Containers that multus remembers and the runtime no longer has.
 *
 * @module
 */

import type { CachedAttachment } from "../../cni/libcni/cache.ts";
import { dropRecycledNetns } from "../../cni/libcni/recycled_netns.ts";
import type { ValidAttachment } from "../../cni/types.ts";
import type { Delegate } from "./delegate.ts";
import { interfaceNameOf } from "./delegate_conf.ts";
import { lockContainer } from "./container_lock.ts";
import { detachAll } from "./del.ts";
import type { Session } from "./session.ts";

/**
 * Detaches such containers from their networks and forgets them.
 *
 * Those that were remembered since this process has started are spared: the
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
  { scratch, cache }: Session,
  valid: readonly ValidAttachment[],
): string[] {
  const spared = new Set(valid.map(({ containerId }) => containerId));
  const remembered = new Set(scratch.list());
  for (const { containerId, since } of cache.listAttachments()) {
    remembered.add(containerId);
    if (since.getTime() > performance.timeOrigin) spared.add(containerId);
  }
  return [...remembered]
    .filter((containerId) => !spared.has(containerId))
    .filter((containerId) => !scratch.isYounger(containerId, processStart()));
}

function processStart(): Date {
  return new Date(performance.timeOrigin);
}

/** Runs DEL for a container as the runtime would have. */
async function release(session: Session, containerId: string): Promise<void> {
  using _lock = await lockContainer(session, containerId);
  const { call, scratch, cache, log } = session;
  const cached = cache.listAttachments(containerId);
  const { delegates } = scratch.readWhatIsLeft(containerId);
  const known = {
    containerId,
    netns: cached.find(({ netns }) => netns !== "")?.netns ?? "",
    ifName: guessIfName(delegates, cached),
  };
  // Nobody says that the path still leads where it did.
  const { netns } = dropRecycledNetns({ ...call.running, log }, known);
  const args = { ...call.args, ...known, netns, args: "" };
  const ofContainer = { ...session, call: { ...call, args } };
  await detachAll(ofContainer);
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
