/**
 * Finding out what a container may be attached to when nothing is remembered.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { describeError } from "../../../cni/error.ts";
import { deadline } from "../../../cni/deadline.ts";
import { ifPossible } from "../../../cni/io_failure.ts";
import type { Delegate } from "../networks/delegate.ts";
import { findPod, type KnownPod, POD_IS_GONE } from "../pod/pod.ts";
import { selectDelegates } from "../networks/select.ts";
import type { Session } from "../session.ts";

/** How long the API may take in all, in milliseconds. */
const API_MS = 2500;

/**
 * Chooses what the container may have been attached to.
 *
 * The API is asked for the pod's networks only if what ADD wrote down may have
 * been lost. Otherwise multus has attached the container to nothing, or has
 * detached it already; but the networks of every pod may have been attached
 * before multus was installed.
 *
 * @throws {CniError} If not even those can be found out
 */
export async function rediscoverDelegates(
  session: Session,
): Promise<Delegate[]> {
  const signal = deadline(API_MS, session.call.signal);
  const pod = isMemoryLost(session)
    ? await askForPod(session, signal)
    : undefined;
  if (pod !== undefined) {
    try {
      return await selectDelegates(session, pod, signal);
    } catch (error) {
      session.log.verbose("Detaching from the networks of every pod only", {
        error: describeError(error),
      });
    }
  }
  return await selectDelegates(session, undefined, signal);
}

/** Says whether the scratch file cannot be read, or the cache was removed. */
function isMemoryLost({ call, scratch }: Session): boolean {
  const { args: { containerId }, config: { cniDir } } = call;
  const results = join(cniDir, "results");
  return scratch.has(containerId) ||
    ifPossible(() => Deno.statSync(results)) === undefined;
}

async function askForPod(
  { k8s, cluster, log, call }: Session,
  signal: AbortSignal,
): Promise<KnownPod | undefined> {
  const { config: { runtimeConfig } } = call;
  try {
    const pod = await findPod({ k8s, runtimeConfig, cluster, signal });
    return pod === POD_IS_GONE ? undefined : pod;
  } catch (error) {
    // A kubelet repeats DEL for what is long gone, and nobody wants to hear it.
    log.verbose("Cannot find out the pod's networks", {
      error: describeError(error),
    });
    return undefined;
  }
}
