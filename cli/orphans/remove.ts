/**
 * Removes leftovers, under the locks of the runtimes' caches.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { AttachmentLocks, lockDirectoryOf } from "../../libcni/mod.ts";
import { toCniError } from "../../base/error.ts";
import {
  findOrphans,
  identify,
  listLockDirectories,
  type Orphan,
  type OrphanSearch,
} from "./mod.ts";

/** Longest time between the two searches, in ms. */
const BETWEEN_MS = 2000;

/** The outcome of removing a leftover. */
export interface Removal {
  readonly orphan: Orphan;
  /** Undefined if it was removed. */
  readonly error?: Error;
}

/**
 * Removes leftovers that two searches find, up to two seconds apart. No
 * operation on the caches runs meanwhile, and a runtime that does not lock has
 * had the time to write down an attachment that it was just making.
 *
 * @returns What became of each; failures do not keep others from being removed
 * @throws {CniError} 11 If operations go on until the signal
 * @throws {Error} As {@linkcode findOrphans}
 */
export async function removeOrphans(
  search: OrphanSearch,
): Promise<Removal[]> {
  using held = new DisposableStack();
  const options = search.signal ? { signal: search.signal } : {};
  const first = await findOrphans(search);
  if (first.length === 0) return [];
  for (const directory of await listLockDirectories(search)) {
    if (!isDirectory(directory)) continue;
    const locks = new AttachmentLocks(lockDirectoryOf(directory));
    held.use(await locks.lockExclusively({ ...options, log: search.log }));
  }
  await pause(Math.min(BETWEEN_MS, search.graceMs), search.signal);
  search.signal?.throwIfAborted();
  const known = new Set(first.map(identify));
  const again = await findOrphans(search);
  const removals: Removal[] = [];
  // Taking the locks has removed those that no process held.
  for (const orphan of first.filter(({ kind }) => kind === "lock")) {
    if (!again.some((one) => identify(one) === identify(orphan))) {
      removals.push({ orphan });
    }
  }
  for (const orphan of again.filter((one) => known.has(identify(one)))) {
    search.signal?.throwIfAborted();
    removals.push(await remove(orphan));
  }
  return removals;
}

async function remove(orphan: Orphan): Promise<Removal> {
  try {
    await orphan.remove();
    return { orphan };
  } catch (error) {
    return { orphan, error: toCniError(error) };
  }
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
