/**
 * Locks a network namespace against other calls.
 *
 * @module
 */

import type { LockWait } from "../../../base/files/lock.ts";
import { lockPrivately } from "../../../base/files/private_lock.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { netnsIdOf } from "./sandbox.ts";

/**
 * Waits until no other call has locked the namespace, whatever its path.
 *
 * @throws {CniError} 11 if others take too long
 */
export function lockNetns(netns: NetNs, wait: LockWait): Promise<Disposable> {
  return lockPrivately(`netns-${netnsIdOf(netns)}`, wait);
}
