/**
 * Locks a sandbox against other attachments.
 *
 * @module
 */

import { FileLock } from "../../cni/files/lock.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { pathOf } from "./sandbox.ts";

/** Time limit of the wait for other attachments of the sandbox. */
const LOCK_TIMEOUT_MS = 10_000;

/**
 * Locks out other attachments of the sandbox, which may also be choosing a
 * table. The lock is on the namespace itself, independent of its path, and the
 * Go plugin sbr uses the same one.
 *
 * @throws {CniError} 11 if others take too long
 */
export async function lockSandbox(
  { netns }: Rtnl,
  { log, signal }: Pick<Call, "log" | "signal">,
): Promise<FileLock> {
  return await FileLock.acquireExisting(pathOf(netns), {
    what: `network namespace "${netns.path}"`,
    limitMs: LOCK_TIMEOUT_MS,
    log,
    signal,
  });
}
