/**
 * Serializes operations on one container.
 *
 * Runtimes should do so, but may not: a restarted runtime cleans up while the
 * ADD of its predecessor still runs, and would remove what that ADD creates.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { JoinedSignal } from "../../../cni/call/deadline.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Log } from "../../../cni/log/log.ts";
import { AttachmentLocks, lockFolderOf } from "../../../cni/libcni/lock.ts";
import type { MultusConfig } from "../model/config.ts";
import { isNested } from "../model/self_guard.ts";

/** The call that needs the lock. */
export interface LockingCall {
  readonly call: Pick<
    Call<MultusConfig>,
    "config" | "command" | "surroundings" | "signal"
  >;
  readonly log: Log;
}

/** How long to wait for another operation on the container, in milliseconds. */
const PATIENCE_MS = 30_000;

/**
 * Waits until no other multus process works on a container.
 *
 * Containers must stay detachable: DEL and GC continue without the lock if they
 * cannot get it. So does a nested multus: the outer one holds the lock.
 *
 * @returns The lock, held until disposal
 * @throws {CniError} In ADD: 11 if the other operation takes too long, 5 if the
 *   lock cannot be created
 */
export async function lockContainer(
  { call, log }: LockingCall,
  containerId: string,
): Promise<Disposable | undefined> {
  const { config, command, surroundings, signal } = call;
  if (isNested(surroundings.env)) return undefined;
  const locks = locksOf(config);
  using limit = new JoinedSignal(PATIENCE_MS, signal);
  const patience = { signal: limit.signal, log };
  try {
    return await locks.lockContainer(containerId, patience);
  } catch (error) {
    if (command === "ADD") throw error;
    log.warn("Continuing without the lock", {
      containerId,
      error: describeError(error),
    });
    return undefined;
  }
}

/** Removes the lock files of processes that were killed. */
export function removeDeadLocks({ call }: Pick<LockingCall, "call">): void {
  locksOf(call.config).sweep();
}

function locksOf({ cniDir }: MultusConfig): AttachmentLocks {
  return new AttachmentLocks(lockFolderOf(cniDir));
}
