/**
 * Folders that plugins share with the whole machine, and how a process that has
 * its own mounts has others in their place.
 *
 * @module
 */

import * as libc from "../../../ffi/libc.ts";

/** Default folders of plugins and iptables. */
const SHARED_FOLDERS = ["/run", "/var/lib/cni"] as const;

/**
 * Puts empty folders in memory in the place of those that would be shared with
 * the machine, and of `folder`. Only for a process that is isolated.
 *
 * @param needed Paths that have to stay as they are
 */
export function hideSharedFolders(
  folder: string,
  needed: readonly string[],
): void {
  libc.mountNew("tmpfs", folder, 0);
  for (const shared of SHARED_FOLDERS) {
    if (!isFolder(shared)) continue;
    const path = Deno.realPathSync(shared);
    if (needed.some((other) => `${other}/`.startsWith(`${path}/`))) continue;
    libc.mountNew("tmpfs", path, 0);
  }
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
