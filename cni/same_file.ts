/**
 * Whether two paths lead to one file: an executable under two names, a
 * namespace under two paths.
 *
 * @module
 */

/** Compares by device and inode; a path that leads nowhere is no file. */
export function isSameFile(left: string, right: string): boolean {
  try {
    const [one, other] = [Deno.statSync(left), Deno.statSync(right)];
    return one.dev === other.dev && one.ino === other.ino;
  } catch {
    return false;
  }
}
