/**
 * Keeping operations on one container apart.
 *
 * Runtimes should do that, and do not always: one that was restarted cleans up
 * beside the ADD of its predecessor. The undoing of the one would take what the
 * other has made.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { deadline } from "../../../cni/deadline.ts";
import { AttachmentLocks, lockFolderOf } from "../../../cni/libcni/lock.ts";
import { isNested } from "../networks/self_guard.ts";
import type { Session } from "../session.ts";

/** How long another operation on the container is waited for, in milliseconds. */
const PATIENCE_MS = 30_000;

/**
 * Waits until no other multus is at work on a container.
 *
 * A container must be detachable all the same: DEL and GC go on without a lock
 * that cannot be had. So does multus below multus, which holds it already.
 *
 * @returns The lock, held until disposal
 * @throws {CniError} ADD: 11 if the other one takes too long, 5 if the lock
 *   cannot be made
 */
export async function lockContainer(
  { call, log }: Pick<Session, "call" | "log">,
  containerId: string,
): Promise<Disposable | undefined> {
  const { config, command, running, signal } = call;
  if (isNested(running.env)) return undefined;
  const locks = new AttachmentLocks(lockFolderOf(config.cniDir));
  const patience = { signal: deadline(PATIENCE_MS, signal), log };
  try {
    return await locks.lockContainer(containerId, patience);
  } catch (error) {
    if (command === "ADD") throw error;
    log.warn("Going on without a lock", {
      containerId,
      error: describeError(error),
    });
    return undefined;
  }
}
