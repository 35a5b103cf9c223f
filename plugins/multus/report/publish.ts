/**
 * Reports a pod's attachments to the API.
 *
 * @module
 */

import { CniError, describeError } from "../../../cni/error.ts";
import type { Attached } from "../attach.ts";
import { buildNetworkStatus, formatNetworkStatus } from "./network_status.ts";
import { addedInterface, postEvents } from "./pod_events.ts";
import type { ClusterClient } from "../pod/cluster.ts";
import type { KnownPod } from "../pod/pod.ts";
import type { Session } from "../session.ts";

/** The annotation. Source: Network Custom Resource Definition De-facto Standard 1.3. */
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** How long ADD waits for its events, in milliseconds. */
const EVENTS_MS = 500;

/**
 * Writes the status annotation of a pod, then posts an event for each attachment
 * on the same connection: another TLS handshake would take longer than a request.
 *
 * A deleted pod and lost events are not failures. If the runtime passed the
 * annotations and they select no networks, an unwritten status is not a failure
 * either: such pods start even if the API is down.
 *
 * @throws {CniError} 11 or 7 if the status cannot be written, 4 if the API has
 *   another pod of that name
 */
export async function publish(
  session: Session,
  pod: KnownPod,
  attached: readonly Attached[],
): Promise<void> {
  try {
    const client = await session.cluster.client();
    await writeStatus(session, client, pod, attached);
    await announce(session, client, pod, attached);
  } catch (error) {
    const isOrdinary = attached.length === 1 && pod.object === undefined;
    if (!isOrdinary) throw error;
    session.log.warn("Cannot write the network status", {
      error: describeError(error),
    });
  }
}

/** Posts an event for each attachment; lost events are not failures. */
export async function announce(
  { log }: Pick<Session, "log">,
  client: ClusterClient,
  pod: KnownPod,
  attached: readonly Attached[],
): Promise<void> {
  const events = attached
    .filter(({ result }) => result.interfaces.length + result.ips.length > 0)
    .map(({ ifName, result, delegate }) =>
      addedInterface(pod, ifName, result.ips, delegate.name)
    );
  await postEvents(client, events, { withinMs: EVENTS_MS, log });
}

async function writeStatus(
  { log, call: { signal } }: Session,
  client: ClusterClient,
  pod: KnownPod,
  attached: readonly Attached[],
): Promise<void> {
  const status = attached.flatMap((one, index) =>
    buildNetworkStatus({ ...one, isMaster: index === 0 })
  );
  if (status.length === 0) return;
  const { namespace, name, uid, isStatic, object } = pod;
  // The runtime does not know the API's UID of a static pod.
  const isUidKnown = uid !== "" && (!isStatic || object !== undefined);
  const key = { namespace, name, uid: isUidKnown ? uid : undefined };
  const annotations = { [NETWORK_STATUS]: formatNetworkStatus(status) };
  try {
    await client.setPodAnnotations(key, annotations, { signal });
  } catch (error) {
    const failure = await describeFailure(error);
    if (failure !== undefined) throw failure;
    log.verbose("The pod is gone", { pod: `${namespace}/${name}` });
  }
}

/** @returns Undefined if the pod is gone */
async function describeFailure(
  error: unknown,
): Promise<CniError | undefined> {
  const { isNotFound, KubeError, kubeErrorCode } = await import(
    "../../../kube/kube_error.ts"
  );
  if (isNotFound(error)) return undefined;
  const code = error instanceof KubeError ? kubeErrorCode(error) : 999;
  return new CniError(
    code,
    `error setting the networks status: ${describeError(error)}`,
  );
}
