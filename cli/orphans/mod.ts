/**
 * Finds and removes what deleted containers have left on the node: leases,
 * cached attachments, records, locks, links, and rules of nftables and
 * iptables, of this project and of the Go plugins. It uses no container
 * runtime.
 *
 * An orphan counts only if its container is proven to be deleted:
 *
 * - No cached attachment of the container has a namespace that exists, or a veth
 *   on the host that leads into a namespace.
 * - No lease of the container is for an address that a namespace has.
 * - No process names the container: in its command line or control group, as
 *   shims and pod processes do, or in its environment, as CNI plugins of root do.
 * - No network namespace but the host's has one of the orphan's addresses.
 * - No container runtime has a directory for the container. A container without a
 *   process, such as a checkpointed container, also has a directory.
 * - It is older than the grace period, if it has a time.
 *
 * Everything else is kept: objects that name neither container nor address, and
 * objects of third-party programs.
 *
 * @module
 */

import { type Orphan, ORPHAN_KINDS } from "../../metadata/orphans.ts";
import { askOthers, findAttachments, findLocks, findPairs } from "./finders.ts";
import { NodeEvidence } from "../../plugins/parts/evidence/evidence.ts";
import {
  listCacheDirectories,
  listStatePlaces,
  loadPluginOrphans,
  type OrphansByType,
  type OrphanSearchOptions,
  type Scene,
  type StatePlaces,
} from "./search.ts";
import { JoinedSignal, pause } from "../../base/deadline.ts";
import { AttachmentLocks, lockDirectoryOf } from "../../libcni/mod.ts";
import { lockByTurns } from "../../libcni/lock.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../base/error.ts";
import { isDirectory } from "../../base/files/io.ts";

export type { Orphan, OrphanKind } from "../../metadata/orphans.ts";
export type { OrphanSearchOptions } from "./search.ts";

/** Younger orphans are kept by default, in ms: a runtime might be attaching the pod. */
export const GRACE_MS = 5 * 60_000;

/**
 * Lists the resources of deleted containers, attachments first: their removal
 * removes most of the others. Changes nothing.
 *
 * @throws {Error} If it cannot look at all processes and namespaces: what a hidden
 *   container uses would look like an orphan
 */
export async function findOrphans(
  search: OrphanSearchOptions,
): Promise<Orphan[]> {
  const pluginOrphans = await loadPluginOrphans();
  const places = listStatePlaces(search, pluginOrphans);
  const caches = listCacheDirectories(search, pluginOrphans, places);
  const renew = (): Promise<NodeEvidence> =>
    gatherEvidence(search, { pluginOrphans, places, caches });
  const evidence = await renew();
  const scene: Scene = { ...search, caches, evidence, renew };
  const orphans = [
    ...findAttachments(scene),
    ...findLocks(scene),
    ...findPairs(scene),
    ...await askPlugins(scene, pluginOrphans, places),
    ...await askOthers(scene),
  ];
  return withoutDuplicates(
    orphans.sort(({ kind: left }, { kind: right }) =>
      ORPHAN_KINDS.indexOf(left) - ORPHAN_KINDS.indexOf(right)
    ),
  );
}

/** Runs the finders of all plugins; a finder that plugins share runs once. */
async function askPlugins(
  scene: Scene,
  pluginOrphans: OrphansByType,
  places: StatePlaces,
): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  const done = new Set<unknown>();
  for (const [type, { finders = [] }] of pluginOrphans) {
    const search = { ...scene, places: places.get(type) ?? [] };
    for (const find of finders) {
      if (done.has(find)) continue;
      done.add(find);
      orphans.push(...await find(search));
    }
  }
  return orphans;
}

/**
 * Builds the error for containers that might run unseen: containers of other pods, or
 * of a runtime that has not started yet.
 */
function hiddenProcesses(): Error {
  return new Error(
    "Cannot determine which containers no longer exist: this PID namespace " +
      "has neither kernel threads nor a container runtime; run it on the " +
      "node, or in a pod with hostPID",
  );
}

async function gatherEvidence(
  { hostNetns, graceMs, log }: OrphanSearchOptions,
  { pluginOrphans, places, caches }: {
    readonly pluginOrphans: OrphansByType;
    readonly places: StatePlaces;
    readonly caches: readonly string[];
  },
): Promise<NodeEvidence> {
  const evidence = await NodeEvidence.gather({
    hostNetns,
    graceMs,
    caches,
    leases: [...pluginOrphans].flatMap(([type, { listLeases }]) =>
      listLeases?.(places.get(type) ?? []) ?? []
    ),
  });
  if (!evidence.isWhole) throw hiddenProcesses();
  const { unread: reason } = evidence;
  if (reason !== undefined) {
    log.warn("Cannot determine which containers were deleted", { reason });
  }
  return evidence;
}

/** Some chains are found by netlink and by a program. */
function withoutDuplicates(orphans: readonly Orphan[]): Orphan[] {
  return [
    ...new Map(orphans.map((one) => [identify(one), one])).values(),
  ];
}

/** Returns a text that identifies an orphan in both searches. */
function identify({ kind, where, container }: Orphan): string {
  return `${kind} ${where} ${container}`;
}

/** Lists the cache directories whose operations must not run during a removal. */
async function listLockDirectories(
  search: OrphanSearchOptions,
): Promise<string[]> {
  const pluginOrphans = await loadPluginOrphans();
  const places = listStatePlaces(search, pluginOrphans);
  return listCacheDirectories(search, pluginOrphans, places);
}

/** Longest time between the two searches, in ms. */
const BETWEEN_MS = 2000;

/** How long an attempt to lock all caches delays other operations, in ms. */
const ATTEMPT_MS = 2000;
/** How long other operations run freely until the next attempt, in ms. */
const PASS_MS = 3000;
/** How long to make attempts, in ms. */
const LIMIT_MS = 5 * 60_000;

/**
 * Waits until no operation on the caches is running. Others run while it waits: it
 * holds no lock between attempts.
 *
 * @returns The locks, held until disposal
 * @throws {CniError} 11 after one attempt if the search is automatic; otherwise after
 *   the limit or on the signal
 */
async function lockCaches(search: OrphanSearchOptions): Promise<Disposable> {
  const directories = (await listLockDirectories(search)).filter(isDirectory);
  const { signal, isAutomatic, log } = search;
  using limit = new JoinedSignal(
    isAutomatic ? ATTEMPT_MS : LIMIT_MS,
    signal,
  );
  let isNoticed = false;
  return await lockByTurns((signal) => tryLockCaches(directories, signal), {
    attemptMs: ATTEMPT_MS,
    passMs: PASS_MS,
    signal: limit.signal,
    onBusy(error): void {
      if (isAutomatic || isNoticed) return;
      isNoticed = true;
      log.warn("Waiting until no container is attached or detached", {
        error: describeError(error),
      });
    },
  });
}

async function tryLockCaches(
  directories: readonly string[],
  signal: AbortSignal,
): Promise<Disposable> {
  using held = new DisposableStack();
  for (const directory of directories) {
    const locks = new AttachmentLocks(lockDirectoryOf(directory));
    held.use(await locks.lockExclusively({ signal }));
  }
  return held.move();
}

/** The outcome of removing an orphan. */
export interface Removal {
  readonly orphan: Orphan;
  /** Undefined if it was removed. */
  readonly error?: Error;
}

/**
 * Removes orphans that two searches find, up to two seconds apart: a runtime that
 * does not lock has had the time to write down an attachment that it was just
 * making. No operation on the caches runs during the second search and the removal.
 *
 * @returns The outcome for each orphan. After a failure, the leases of the same container
 *   are kept, because the remaining resources might use their addresses; all other
 *   orphans are removed
 * @throws {CniError} 11 If operations continue, after two seconds if the search is
 *   automatic, otherwise after five minutes or on the signal
 * @throws {Error} As {@linkcode findOrphans}
 */
export async function removeOrphans(
  search: OrphanSearchOptions,
): Promise<Removal[]> {
  const { known, locks } = await findFirst(search);
  if (known.size === 0) return [];
  await pause(Math.min(BETWEEN_MS, search.graceMs), search.signal);
  using _locks = await lockCaches(search);
  search.signal?.throwIfAborted();
  const again = await findOrphans(search);
  const still = new Set(again.map(identify));
  // Taking the locks has removed those that no process held.
  const removals: Removal[] = locks
    .filter((orphan) => !still.has(identify(orphan)))
    .map((orphan) => ({ orphan }));
  const failed = new Map<string, Orphan>();
  for (const orphan of again.filter((one) => known.has(identify(one)))) {
    search.signal?.throwIfAborted();
    const { kind, container } = orphan;
    const other = container === "" ? undefined : failed.get(container);
    const removal = kind === "lease" && other !== undefined
      ? { orphan, error: keptFor(other) }
      : await remove(orphan);
    if (removal.error !== undefined && other === undefined) {
      failed.set(container, orphan);
    }
    removals.push(removal);
  }
  return removals;
}

/** Runs the first search; keeps only the identities of the orphans. */
async function findFirst(
  search: OrphanSearchOptions,
): Promise<{ readonly known: Set<string>; readonly locks: Orphan[] }> {
  const orphans = await findOrphans(search);
  return {
    known: new Set(orphans.map(identify)),
    locks: orphans.filter(({ kind }) => kind === "lock"),
  };
}

function keptFor({ kind, where }: Orphan): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `Cannot release the lease yet: ${kind} ${where} of the container still exists`,
  );
}

async function remove(orphan: Orphan): Promise<Removal> {
  try {
    await orphan.remove();
    return { orphan };
  } catch (error) {
    return { orphan, error: toCniError(error) };
  }
}
