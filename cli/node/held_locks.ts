/**
 * Lease locks that a process holds.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { FileLock } from "../../base/files/lock.ts";
import {
  findLockHolders,
  type LockHolder,
} from "../../base/files/lock_holders.ts";
import { pause } from "../../base/deadline.ts";
import { type NodeReader, oncePerNode } from "./node_reader.ts";
import { listPools } from "./pools.ts";

/** How long a lock may be held until it counts as stuck, and how often to look, in ms. */
const HELD_MS = 2000, LOOK_MS = 100;

/** A lock of leases that a process keeps. */
interface HeldLock {
  readonly network: string;
  readonly path: string;
  readonly holder: LockHolder;
}

/** Lists the locks of host-local that the same process keeps. */
export const listHeldLocks: (node: NodeReader) => Promise<HeldLock[]> =
  oncePerNode(
    async (node) => {
      const locks = new Map(
        listPools(node).map(({ lock, network }) => [lock, network.name]),
      );
      const found = await Promise.all(
        [...locks].map(async ([path, network]) => {
          const holder = await findHolder(path, node);
          return holder === undefined ? [] : [{ network, path, holder }];
        }),
      );
      return found.flat();
    },
  );

/** Returns the process that keeps a lock all the time; undefined if it is free. */
async function findHolder(
  path: string,
  { signal }: NodeReader,
): Promise<LockHolder | undefined> {
  const deadlineMs = performance.now() + HELD_MS;
  let first: LockHolder | undefined;
  for (;;) {
    const info = ifPossible(() => Deno.statSync(path));
    if (info === undefined || isFree(path)) return undefined;
    const [holder = { pid: 0, program: undefined, isStopped: false }] =
      findLockHolders(info);
    if (holder.isStopped) return holder;
    if (first !== undefined && first.pid !== holder.pid) return undefined;
    first = holder;
    if (performance.now() >= deadlineMs) return holder;
    signal.throwIfAborted();
    await pause(LOOK_MS);
  }
}

function isFree(path: string): boolean {
  try {
    using lock = FileLock.tryAcquire(path, { create: false, shared: true });
    return lock !== undefined;
  } catch {
    return true; // It is gone, or another check reports it.
  }
}
