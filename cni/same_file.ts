/**
 * Whether two paths lead to one file: an executable under two names, a
 * namespace under two paths.
 *
 * @module
 */

/** Compares by device and inode; a path that leads nowhere is no file. */
export function isSameFile(left: string, right: string): boolean {
  const file = findFileId(left);
  return file !== undefined && file === findFileId(right);
}

/** Returns device and inode, which no two files share; undefined if a path leads nowhere. */
export function findFileId(path: string): string | undefined {
  try {
    const { dev, ino } = Deno.statSync(path);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
