/**
 * Reports a pod's networks to the API server: the status annotation, then events.
 *
 * Source: multus-cni pkg/multus/multus.go `DelegateAdd`.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import type { Log } from "../../../base/log/log.ts";
import type { PodKey } from "../../../kube/pod_annotations.ts";
import type { Attached } from "../model/attachment.ts";
import type { Cluster, ClusterClient } from "../pod/cluster.ts";
import type { PodInfo } from "../pod/pod.ts";
import { postAttachmentEvents } from "./events.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  NETWORK_STATUS,
} from "./network_status.ts";

/** The parts of a call that reporting needs. */
export interface ReportingCall {
  readonly call: { readonly signal?: AbortSignal | undefined };
  readonly cluster: Pick<Cluster, "client">;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * How long ADD waits for an optional status, and for its removal, in milliseconds.
 */
const OPTIONAL_STATUS_MS = 15_000, REMOVE_STATUS_MS = 5000;

/**
 * Writes the status annotation of a pod, then posts an event for each attachment over
 * the same connection, because a second TLS handshake would take longer than a
 * request.
 *
 * A deleted pod and lost events are not failures. If the runtime passed the
 * annotations and they select no networks, an unwritten status is not a failure
 * either, so that such pods start even if the API server is down.
 *
 * After a failure, ADD is undone. The API server might have carried out a request to
 * which it did not respond in time, so the status is then removed.
 *
 * @throws {CniError} 11 or 7 if the status cannot be written, 4 if the API server has
 * a different pod with the same name
 */
export async function publish(
  session: ReportingCall,
  pod: PodInfo,
  attached: readonly Attached[],
): Promise<void> {
  const isStatusOptional = attached.length === 1 && pod.object === undefined;
  try {
    const client = await session.cluster.client();
    const status = describeStatus(pod, attached);
    if (status !== undefined) {
      await writeStatus(session, client, status, isStatusOptional);
    }
    await postAttachmentEvents(session, client, pod, attached);
  } catch (error) {
    if (!isStatusOptional) throw error;
    session.log.warn("Cannot write the network status", {
      error: describeError(error),
    });
  }
}

/** The status of a pod and its destination. */
interface WrittenStatus {
  readonly pod: PodKey;
  readonly text: string;
}

/** @returns Undefined if there is nothing to report */
function describeStatus(
  { namespace, name, uid, isStatic, object }: PodInfo,
  attached: readonly Attached[],
): WrittenStatus | undefined {
  const status = attached.flatMap((one, index) =>
    buildNetworkStatus({ ...one, isMaster: index === 0 })
  );
  if (status.length === 0) return undefined;
  // The runtime's UID of a static pod differs from the API server's.
  const isUidKnown = uid !== "" && (!isStatic || object !== undefined);
  const pod = { namespace, name, uid: isUidKnown ? uid : undefined };
  return { pod, text: formatNetworkStatus(status) };
}

async function writeStatus(
  { log, call: { signal } }: ReportingCall,
  client: ClusterClient,
  status: WrittenStatus,
  isStatusOptional: boolean,
): Promise<void> {
  const { pod, text } = status;
  const annotations = { [NETWORK_STATUS]: text };
  const limits = isStatusOptional ? { overallMs: OPTIONAL_STATUS_MS } : {};
  try {
    await client.setPodAnnotations(pod, annotations, { signal, ...limits });
  } catch (error) {
    const failure = await describeFailure(error);
    if (failure === undefined) {
      const { namespace, name } = pod;
      return log.info("The pod was deleted", { pod: `${namespace}/${name}` });
    }
    if (!isStatusOptional && failure.code === ErrorCode.TryAgainLater) {
      await removeStatus(log, client, status);
    }
    throw failure;
  }
}

async function removeStatus(
  log: ReportingCall["log"],
  client: ClusterClient,
  { pod, text }: WrittenStatus,
): Promise<void> {
  const limits = { overallMs: REMOVE_STATUS_MS };
  try {
    await client.removePodAnnotation(pod, NETWORK_STATUS, text, limits);
  } catch (error) {
    log.info("Cannot remove the network status", {
      error: describeError(error),
    });
  }
}

/** @returns Undefined if the pod was deleted */
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
