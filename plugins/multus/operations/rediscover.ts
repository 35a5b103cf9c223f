/**
 * Finds the networks to which a container without a record might be attached.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { describeError } from "../../../base/error.ts";
import { JoinedSignal } from "../../../base/deadline.ts";
import { exists } from "../../../base/files/io.ts";
import type { Delegate } from "../model/delegate.ts";
import { findPod, POD_IS_GONE, type PodInfo } from "../pod/pod.ts";
import { selectDelegates } from "../select/select.ts";
import type { Session } from "./session.ts";

/** Time limit for all API requests, in milliseconds. */
const API_MS = 2500;

/**
 * Selects the networks to which the container might be attached.
 *
 * Requests the pod's networks from the API server only if the record of ADD might be
 * lost. Otherwise, multus never attached the container, or has already detached it;
 * but the networks of every pod might have been attached before multus was installed.
 *
 * @throws {CniError} If not even the networks of every pod can be found
 */
export async function rediscoverDelegates(
  session: Session,
): Promise<Delegate[]> {
  using limit = new JoinedSignal(API_MS, session.call.signal);
  const { signal } = limit;
  const pod = isRecordLost(session)
    ? await tryFindPod(session, signal)
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

/** Reports whether the scratch file is unreadable, or the cache was removed. */
function isRecordLost({ call, scratch }: Session): boolean {
  const { args: { containerId }, config: { cniDir } } = call;
  const results = join(cniDir, "results");
  return scratch.has(containerId) ||
    !exists(results);
}

async function tryFindPod(
  { k8s, cluster, log, call }: Session,
  signal: AbortSignal,
): Promise<PodInfo | undefined> {
  const { config: { runtimeConfig } } = call;
  try {
    const pod = await findPod({ k8s, runtimeConfig, cluster, signal });
    return pod === POD_IS_GONE ? undefined : pod;
  } catch (error) {
    // Not a warning, because kubelets repeat DEL for pods that were deleted long ago.
    log.verbose("Cannot find the pod's networks", {
      error: describeError(error),
    });
    return undefined;
  }
}
