/**
 * Whether a container's network namespace still exists. What can be determined depends
 * on what is known about it: its path, its ID, or both.
 *
 * @module
 */

import { ifPossible, unlessUnreachable } from "../../base/files/io.ts";
import {
  fileIdOf,
  findBootId,
  findFileId,
} from "../../base/files/same_file.ts";
import { once } from "../../base/json/json.ts";
import { findHostId, isNamespace } from "./own_netns.ts";

/**
 * Reports whether a path leads to the namespace of any container. The path of a deleted
 * namespace can be missing, be the empty file that an unmounted namespace leaves, or
 * lead to the host's namespace: /proc/PID/ns/net does if a host process reuses the PID.
 *
 * @param hostNetns Path of the host's own namespace
 * @returns Undefined for "", or if a path cannot be read
 */
export function leadsToSandbox(
  path: string,
  hostNetns: string,
): boolean | undefined {
  const host = findHostId(hostNetns);
  if (path === "" || host === undefined) return undefined;
  return ifPossible(() => {
    const id = unlessUnreachable(() => fileIdOf(Deno.statSync(path)));
    return id !== host && isNamespace(id);
  });
}

/**
 * Reports whether a path leads to the namespace with a recorded ID.
 *
 * @param id The result of `findFileId` for the path; without one, the result is false
 * @param boot The result of `findBootId`, for records that survive a reboot
 */
export function leadsToNetns(
  path: string,
  id: string | undefined,
  boot = "",
): boolean {
  if (id === undefined || findFileId(path) !== id) return false;
  return !boot || (findBootId() ?? boot) === boot;
}

/**
 * Returns a test of whether a namespace with an ID exists without regard to its path:
 * because a process is in it, or this process sees a mount of it. The test reads the
 * machine's processes and mounts once.
 */
export function heldNetnsTest(): (id: string | undefined) => boolean {
  const mounts = once(() => Deno.readTextFileSync("/proc/self/mountinfo"));
  const ofProcesses = once(() =>
    new Set(
      [...Deno.readDirSync("/proc")].filter(({ name }) => /^\d+$/.test(name))
        .map(({ name }) => findFileId(`/proc/${name}/ns/net`)),
    )
  );
  return (id) => {
    if (id === undefined) return false;
    const root = ` net:[${id.slice(id.indexOf(":") + 1)}] `;
    return mounts().includes(root) || ofProcesses().has(id);
  };
}
