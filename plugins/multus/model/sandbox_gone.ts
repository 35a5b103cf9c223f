/**
 * Reports whether a container whose attachment is cached still has its sandbox.
 *
 * @module
 */

import { ifPossible, unlessMissing } from "../../../base/files/io.ts";
import { fileIdOf } from "../../../base/files/same_file.ts";
import { isNamespace } from "../../../cni/call/own_netns.ts";

/**
 * Reports whether a container's network namespace was deleted. Its path can then be
 * missing, be the empty file that an unmounted namespace leaves, or resolve to the
 * host's namespace: /proc/PID/ns/net does if a host process reuses the PID. libcni's
 * cache does not contain the namespace's identity.
 *
 * @param netns CNI_NETNS of ADD; for "" the result is false
 * @param hostNetns Path of the host's own namespace
 * @returns Also false if a path cannot be read
 */
export function isSandboxGone(netns: string, hostNetns: string): boolean {
  return netns !== "" && (ifPossible(() => {
    const host = fileIdOf(Deno.statSync(hostNetns));
    const id = unlessMissing(() => fileIdOf(Deno.statSync(netns)));
    return id === host || !isNamespace(id);
  }) ?? false);
}
