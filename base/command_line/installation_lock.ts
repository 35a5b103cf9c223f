/**
 * The lock on a plugin directory, for commands that install into it.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { isErrno } from "../../ffi/errno.ts";
import { checkWritable } from "../../ffi/file/file_system.ts";
import { FileLock } from "../files/lock.ts";

/** The locked file, which is removed afterwards. */
const LOCK = ".cni-install.lock";

/**
 * Locks a plugin directory with a file in it that only root can open, because every
 * user who can list a directory could lock the directory itself. A read-only
 * directory needs no lock.
 *
 * @throws {CniError} 11 if a different installation does not finish in time
 */
export async function lockInstallation(directory: string): Promise<Disposable> {
  try {
    checkWritable(directory);
  } catch (error) {
    if (!isErrno(error, "EACCES", "EROFS")) throw error;
    return { [Symbol.dispose]: () => {} };
  }
  const lock = await FileLock.acquireTemporary(join(directory, LOCK));
  return { [Symbol.dispose]: () => lock.remove() };
}
