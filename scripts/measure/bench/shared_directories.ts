/**
 * Directories that plugins share with the whole machine, and how a process that has
 * its own mounts has others in their place.
 *
 * @module
 */

import * as libc from "../../../ffi/libc.ts";

/** Default directories of plugins and iptables. */
const SHARED_DIRECTORIES = ["/run", "/var/lib/cni"] as const;

/**
 * Puts empty directories in memory over the directories that would be shared with
 * the machine, and of `directory`. Only for a process that is isolated.
 *
 * @param needed Paths that have to stay as they are
 */
export function hideSharedDirectories(
  directory: string,
  needed: readonly string[],
): void {
  libc.mountNew("tmpfs", directory, 0);
  for (const shared of SHARED_DIRECTORIES) {
    if (!isDirectory(shared)) continue;
    const path = Deno.realPathSync(shared);
    if (needed.some((other) => `${other}/`.startsWith(`${path}/`))) continue;
    libc.mountNew("tmpfs", path, 0);
  }
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
