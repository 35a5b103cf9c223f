/**
 * A cgroup for the plugins that the daemon starts as processes, next to the
 * daemon's own: their memory does not count as the daemon's, and they can finish their
 * work if the daemon's cgroup is killed.
 *
 * Source: cgroups(7); Linux Documentation/admin-guide/cgroup-v2.rst.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { exists, ifPossible } from "../../base/files/io.ts";

/** The files that show this process's cgroup. */
export interface CgroupPaths {
  /** Mount point of cgroup v2. */
  readonly root?: string;
  /** A file in the format of /proc/self/cgroup. */
  readonly membership?: string;
}

/**
 * Creates the cgroup, or uses the cgroup of an earlier daemon.
 *
 * @returns A function that moves a process into the cgroup, if possible; undefined with
 *   cgroup v1, without permission, or if this process's cgroup is the root
 */
export function openPluginCgroup(
  { root = "/sys/fs/cgroup", membership = "/proc/self/cgroup" }: CgroupPaths =
    {},
): ((pid: number) => void) | undefined {
  const own = findOwn(membership);
  const isThere = own !== undefined &&
    exists(`${root}${own}/cgroup.procs`);
  if (!isThere || dirname(own) === own) return undefined;
  const directory = `${root}${own}.plugins`;
  const members = `${directory}/cgroup.procs`;
  const isMade = ifPossible(() => {
    Deno.mkdirSync(directory, { recursive: true });
    return true;
  });
  if (isMade === undefined) return undefined;
  return (pid) =>
    ifPossible(() => Deno.writeTextFileSync(members, String(pid)));
}

/** Returns the path of this process's cgroup below the mount point. */
function findOwn(membership: string): string | undefined {
  const text = ifPossible(() => Deno.readTextFileSync(membership)) ?? "";
  return /^0::(\/.+)$/m.exec(text)?.[1];
}
