/**
 * Whether the sandbox of an attachment is still there.
 *
 * @module
 */

import { ifPossible, unlessMissing } from "../../../cni/io_failure.ts";

/**
 * Says whether the network namespace that a container was attached in is gone.
 * Its path may lead nowhere, to the empty file that an unmounted namespace
 * leaves, or to the host's namespace: /proc/PID/ns/net does when a process of
 * the host gets the process ID.
 *
 * @param netns CNI_NETNS of ADD; of "" nothing can be said
 * @param hostNetns Path of the host's own namespace
 * @returns False also if a path cannot be looked at
 */
export function isSandboxGone(netns: string, hostNetns: string): boolean {
  return netns !== "" && (ifPossible(() => {
    const host = Deno.statSync(hostNetns);
    const sandbox = unlessMissing(() => Deno.statSync(netns));
    // All namespaces are files of one file system, nsfs.
    return sandbox?.dev !== host.dev || sandbox.ino === host.ino;
  }) ?? false);
}
