/**
 * Detects removed sandboxes.
 *
 * @module
 */

import { ifPossible, unlessMissing } from "../../../cni/files/io.ts";

/**
 * Reports whether a container's network namespace is gone. Its path may then be
 * missing, be the empty file that an unmounted namespace leaves, or resolve to
 * the host's namespace: /proc/PID/ns/net does if a host process reuses the PID.
 *
 * @param netns CNI_NETNS of ADD; for "" the result is false
 * @param hostNetns Path of the host's own namespace
 * @returns False also if a path cannot be read
 */
export function isSandboxGone(netns: string, hostNetns: string): boolean {
  return netns !== "" && (ifPossible(() => {
    const host = Deno.statSync(hostNetns);
    const sandbox = unlessMissing(() => Deno.statSync(netns));
    // All namespaces are files of the same file system, nsfs.
    return sandbox?.dev !== host.dev || sandbox.ino === host.ino;
  }) ?? false);
}
