/**
 * Finding out what a container may be attached to when nothing is remembered.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { Delegate } from "./delegate.ts";
import { findPod, type KnownPod, POD_IS_GONE } from "./pod.ts";
import { selectDelegates } from "./select.ts";
import type { Session } from "./session.ts";

/**
 * Chooses what ADD would attach the pod to now; for a pod of which nothing can
 * be learned that is what the configuration has for every pod.
 *
 * @throws {CniError} If not even that can be found out
 */
export async function rediscoverDelegates(
  session: Session,
): Promise<Delegate[]> {
  const pod = await askForPod(session);
  if (pod !== undefined) {
    try {
      return await selectDelegates(session, pod);
    } catch (error) {
      session.log.verbose("Detaching from the networks of every pod only", {
        error: describeError(error),
      });
    }
  }
  return await selectDelegates(session, undefined);
}

async function askForPod(
  { k8s, cluster, log, call }: Session,
): Promise<KnownPod | undefined> {
  const { config: { runtimeConfig }, signal } = call;
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
