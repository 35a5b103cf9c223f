/**
 * Locks on network namespaces, which exclude other calls.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import { lockPrivately, type LockWait } from "../../../base/files/lock.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { netnsIdOf } from "./sandbox.ts";

/**
 * Waits until no other call has locked the namespace, whatever its path.
 *
 * @throws {CniError} 11 if a different call takes too long
 */
export function lockNetns(netns: NetNs, wait: LockWait): Promise<Disposable> {
  return lockPrivately(`netns-${netnsIdOf(netns)}`, wait);
}

/** Time limit of the wait for other attachments of the sandbox. */
const LOCK_TIMEOUT_MS = 10_000;

/** The parts of a call that a wait for the lock needs. */
type WaitingCall = Pick<Call, "log" | "signal">;

/**
 * Excludes other attachments of the sandbox, which might also be choosing a table.
 *
 * @param limitMs For how long a process can hold the lock
 * @throws {CniError} 11 if a different call takes too long
 */
export function lockSandbox(
  { netns }: Pick<Rtnl, "netns">,
  { log, signal }: WaitingCall,
  limitMs = LOCK_TIMEOUT_MS,
): Promise<Disposable> {
  const what = `network namespace "${netns.path}"`;
  return lockNetns(netns, { what, limitMs, log, signal });
}

/**
 * Excludes other attachments for DEL, which continues without the lock at the time
 * limit: it chooses no table, and a process that hangs must not keep a pod from being
 * deleted.
 *
 * @throws {CniError} 11 if the call's own time limit expires
 */
export async function lockSandboxIfPossible(
  sandbox: Pick<Rtnl, "netns">,
  call: WaitingCall,
  limitMs?: number,
): Promise<Disposable | undefined> {
  try {
    return await lockSandbox(sandbox, call, limitMs);
  } catch (error) {
    if (!(error instanceof CniError) || call.signal?.aborted) throw error;
    const { message: problem } = error;
    call.log.warn("Continuing without the lock", { problem });
    return undefined;
  }
}
