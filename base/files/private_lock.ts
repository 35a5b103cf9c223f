/**
 * Locks that only root can hold.
 *
 * A flock(2) needs no more than read permission, so any user can lock a network
 * namespace, or a directory that everybody may list, and keep it. Calls lock a
 * file instead that only root can open, in a directory that only root can enter.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, describeError } from "../error.ts";
import { FileLock, type LockWait } from "./lock.ts";

/** Directory of the files; each exists while its lock is held. */
const DIRECTORY = "/run/cni/locks";

/**
 * Waits for a lock on an object of the node. Where the lock cannot be created, the
 * caller goes on without one. That is usual for an ordinary user, who may not write
 * to `/run`; any other reason, such as a full disk, is logged as a warning.
 *
 * @param name The file's name, which identifies the object
 * @param directory /run/cni/locks by default
 * @throws {CniError} 11 if the lock is not released; the details name its holders
 */
export async function lockPrivately(
  name: string,
  wait: LockWait,
  directory: string = DIRECTORY,
): Promise<Disposable> {
  const path = join(directory, name);
  const acquire = (): Promise<FileLock> =>
    FileLock.acquireTemporary(path, wait);
  try {
    const lock = await acquire().catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      // The first lock since the machine was started.
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      return acquire();
    });
    return { [Symbol.dispose]: () => lock.remove() };
  } catch (error) {
    if (error instanceof CniError) throw error;
    const isUsual = error instanceof Deno.errors.PermissionDenied;
    wait.log?.[isUsual ? "debug" : "warn"]("Going on without a lock", {
      path,
      error: describeError(error),
    });
    return { [Symbol.dispose]: () => {} };
  }
}
