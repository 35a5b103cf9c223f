/**
 * The lock of a directory of plugins, for commands that install into it.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { isErrno } from "../../ffi/errno.ts";
import { checkWritable } from "../../ffi/file/file_system.ts";
import { FileLock } from "../files/lock.ts";

/** The file that is locked, removed at the end. */
const LOCK = ".cni-install.lock";

/**
 * Locks a directory of plugins by a file in it that only root can open: everybody
 * who may list a directory could lock the directory itself. A directory that
 * cannot be written needs no lock.
 *
 * @throws {CniError} 11 if another installation does not end
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
