/**
 * Reports whether two paths lead to the same file, such as an executable with two
 * names or a namespace with two paths.
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

/**
 * Returns device and inode, which identify a file; undefined if the file does not
 * exist.
 */
export function findFileId(path: string): string | undefined {
  try {
    return fileIdOf(Deno.statSync(path));
  } catch {
    return undefined;
  }
}

/** Returns the ID of a file with known attributes. */
export function fileIdOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev}:${ino}`;
}

/**
 * Returns the boot ID, because inodes and cookies of namespaces start again after a
 * reboot. Returns undefined if the kernel does not show it, for example in a sandbox
 * that hides it; callers then compare only their other values.
 */
export function findBootId(): string | undefined {
  try {
    return Deno.readTextFileSync(BOOT_ID).trim() || undefined;
  } catch {
    return undefined;
  }
}
