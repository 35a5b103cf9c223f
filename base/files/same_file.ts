/**
 * Telling whether two paths are the same file: an executable with two names, or a
 * namespace with two paths.
 *
 * @module
 */

/** Leads to this process's executable, even if its file was replaced or deleted. */
export const OWN_EXECUTABLE = "/proc/self/exe";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** Compares device and inode. False if a path does not exist. */
export function isSameFile(left: string, right: string): boolean {
  const file = findFileId(left);
  return file !== undefined && file === findFileId(right);
}

/** Returns device and inode, which identify a file; undefined if it does not exist. */
export function findFileId(path: string): string | undefined {
  try {
    return fileIdOf(Deno.statSync(path));
  } catch {
    return undefined;
  }
}

/**
 * Reports whether a path still leads to the file that had an ID, such as the
 * namespace of a living container. False for a file without one.
 */
export function isStillThere(path: string, id: string | undefined): boolean {
  return id !== undefined && findFileId(path) === id;
}

/** Returns the same for a file whose attributes are known. */
export function fileIdOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev}:${ino}`;
}

/**
 * Returns the ID of this start of the machine: inodes and cookies of namespaces
 * begin again with the next one. Returns undefined if the kernel does not show it,
 * as in a sandbox that hides it; then callers compare only what else they know.
 */
export function findBootId(): string | undefined {
  try {
    return Deno.readTextFileSync(BOOT_ID).trim() || undefined;
  } catch {
    return undefined;
  }
}
