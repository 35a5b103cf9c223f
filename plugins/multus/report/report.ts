/**
 * Reports a pod's networks to the API: the status annotation, and the events that
 * `kubectl describe pod` shows.
 *
 * Source: multus-cni pkg/multus/multus.go `DelegateAdd`, pkg/k8sclient
 * `Eventf`; k8s.io/client-go tools/record/event.go `makeEvent`.
 *
 * @module
 */

import { deadline, waitUntil } from "../../../cni/call/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import type { Log } from "../../../cni/log/log.ts";
import type { IpConfig } from "../../../cni/result/result.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodKey } from "../../../kube/pod_annotations.ts";
import type { Event } from "../../../kube/types.ts";
import type { Attached } from "../model/attachment.ts";
import { NetworkError, type NetworkEvent } from "../model/delegate.ts";
import type { Cluster, ClusterClient } from "../pod/cluster.ts";
import type { KnownPod } from "../pod/pod.ts";
import { buildNetworkStatus, formatNetworkStatus } from "./network_status.ts";

/** The parts of a call that reporting needs. */
export interface ReportingCall {
  readonly call: { readonly signal?: AbortSignal | undefined };
  readonly cluster: Pick<Cluster, "client">;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The annotation. Source: Network Custom Resource Definition De-facto Standard 1.3. */
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** How long ADD waits for its events, in milliseconds. */
const EVENTS_MS = 500;
/**
 * How long ADD waits for a status that is not required, and to take one back, in
 * milliseconds.
 */
const ORDINARY_MS = 15_000, TAKE_BACK_MS = 5000;

/**
 * Writes the status annotation of a pod, then posts an event for each attachment
 * on the same connection: another TLS handshake would take longer than a request.
 *
 * A deleted pod and lost events are not failures. If the runtime passed the
 * annotations and they select no networks, an unwritten status is not a failure
 * either: such pods start even if the API is down.
 *
 * A failure is followed by the undoing of ADD. The API may have carried out a
 * request that it did not answer in time, so the status is removed then.
 *
 * @throws {CniError} 11 or 7 if the status cannot be written, 4 if the API has
 *   another pod of that name
 */
export async function publish(
  session: ReportingCall,
  pod: KnownPod,
  attached: readonly Attached[],
): Promise<void> {
  const isOrdinary = attached.length === 1 && pod.object === undefined;
  try {
    const client = await session.cluster.client();
    const status = describeStatus(pod, attached);
    if (status !== undefined) {
      await writeStatus(session, client, status, isOrdinary);
    }
    await announce(session, client, pod, attached);
  } catch (error) {
    if (!isOrdinary) throw error;
    session.log.warn("Cannot write the network status", {
      error: describeError(error),
    });
  }
}

/** Posts an event for each attachment; lost events are not failures. */
export async function announce(
  { log }: Pick<ReportingCall, "log">,
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

/** The status of a pod, as it is written. */
interface WrittenStatus {
  readonly pod: PodKey;
  readonly text: string;
}

/** @returns Undefined if there is nothing to tell */
function describeStatus(
  { namespace, name, uid, isStatic, object }: KnownPod,
  attached: readonly Attached[],
): WrittenStatus | undefined {
  const status = attached.flatMap((one, index) =>
    buildNetworkStatus({ ...one, isMaster: index === 0 })
  );
  if (status.length === 0) return undefined;
  // The runtime does not know the API's UID of a static pod.
  const isUidKnown = uid !== "" && (!isStatic || object !== undefined);
  const pod = { namespace, name, uid: isUidKnown ? uid : undefined };
  return { pod, text: formatNetworkStatus(status) };
}

async function writeStatus(
  { log, call: { signal } }: ReportingCall,
  client: ClusterClient,
  status: WrittenStatus,
  isOrdinary: boolean,
): Promise<void> {
  const { pod, text } = status;
  const annotations = { [NETWORK_STATUS]: text };
  const limits = isOrdinary ? { overallMs: ORDINARY_MS } : {};
  try {
    await client.setPodAnnotations(pod, annotations, { signal, ...limits });
  } catch (error) {
    const failure = await describeFailure(error);
    if (failure === undefined) {
      const { namespace, name } = pod;
      return log.info("The pod is gone", { pod: `${namespace}/${name}` });
    }
    if (!isOrdinary && failure.code === ErrorCode.TryAgainLater) {
      await takeBack(log, client, status);
    }
    throw failure;
  }
}

async function takeBack(
  log: ReportingCall["log"],
  client: ClusterClient,
  { pod, text }: WrittenStatus,
): Promise<void> {
  const limits = { overallMs: TAKE_BACK_MS };
  try {
    await client.removePodAnnotation(pod, NETWORK_STATUS, text, limits);
  } catch (error) {
    log.info("Cannot take back the network status", {
      error: describeError(error),
    });
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

/** The pod of an event. */
export type EventSubject = Pick<
  KnownPod,
  "namespace" | "name" | "uid" | "object"
>;

/**
 * Builds the event for a new interface of a pod.
 *
 * @param ips The interface's addresses, as in a result
 * @param network The network as {@linkcode Delegate.name}; "" for none
 */
export function addedInterface(
  pod: EventSubject,
  ifName: string,
  ips: readonly Pick<IpConfig, "address">[],
  network: string,
): Event {
  const addresses = ips.map(({ address }) => address.toString()).join(" ");
  const origin = network === "" ? "" : ` from ${network}`;
  return describeEvent(pod, {
    type: "Normal",
    reason: "AddedInterface",
    message: `Add ${ifName} [${addresses}]${origin}`,
  });
}

/** Builds the event for a network that a pod does not get. */
export function networkFailed(pod: EventSubject, event: NetworkEvent): Event {
  return describeEvent(pod, { type: "Warning", ...event });
}

/** The reporting component. */
const COMPONENT = "multus";

function describeEvent(
  { namespace, name, uid, object }: EventSubject,
  what: Required<Pick<Event, "type" | "reason" | "message">>,
): Event {
  const now = new Date();
  // Go's time of the API: RFC 3339 in whole seconds.
  const timestamp = now.toISOString().replace(/\.\d+Z$/, "Z");
  const { resourceVersion } = object?.metadata ?? {};
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: nameEvent(name, now), namespace },
    involvedObject: {
      kind: "Pod",
      namespace,
      name,
      ...uid === "" ? {} : { uid },
      apiVersion: "v1",
      ...resourceVersion === undefined ? {} : { resourceVersion },
    },
    ...what,
    source: { component: COMPONENT },
    firstTimestamp: timestamp,
    lastTimestamp: timestamp,
    count: 1,
    reportingComponent: COMPONENT,
    reportingInstance: "",
  };
}

/** Source: k8s.io/apimachinery pkg/util/validation `DNS1123SubdomainMaxLength`. */
const NAME_MAX = 253;
const NANOSECONDS_IN_MILLISECOND = 1_000_000;

/**
 * Names an event after its pod and time. The clock has milliseconds; random
 * digits below distinguish events of the same millisecond.
 */
function nameEvent(podName: string, time: Date): string {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  const nanoseconds = BigInt(time.getTime()) *
      BigInt(NANOSECONDS_IN_MILLISECOND) +
    BigInt(random % NANOSECONDS_IN_MILLISECOND);
  const suffix = `.${nanoseconds.toString(16)}`;
  const room = NAME_MAX - suffix.length;
  return podName.slice(0, room).replace(/[^a-z\d]+$/, "") + suffix;
}

/** How long ADD waits for the event about a missing network, in milliseconds. */
const EVENT_MS = 500;

/** Posts the event of an error about a network, if it has one. */
export async function tellPodOf(
  { cluster, log }: Pick<ReportingCall, "cluster" | "log">,
  pod: KnownPod,
  error: unknown,
): Promise<void> {
  if (!(error instanceof NetworkError)) return;
  // If the API cannot be asked for the network, it cannot take an event either.
  if (error.code === ErrorCode.TryAgainLater) return;
  const events = [networkFailed(pod, error.event)];
  const client = await cluster.client();
  await postEvents(client, events, { withinMs: EVENT_MS, log });
}

/** How events are posted. */
export interface PostOptions {
  /** How long to wait for all of them, in milliseconds. */
  readonly withinMs: number;
  /** Receives the events that the API refuses, or does not accept in time. */
  readonly log: Pick<Log, "info">;
}

/**
 * Posts events one after the other, and waits until the time limit. Lost events are not failures: the
 * pod has its networks anyway.
 */
export async function postEvents(
  client: Pick<KubeClient, "createEvent">,
  events: readonly Event[],
  options: PostOptions,
): Promise<void> {
  const signal = deadline(options.withinMs);
  for (const event of events) {
    await postEvent(client, event, { ...options, signal });
  }
}

async function postEvent(
  client: Pick<KubeClient, "createEvent">,
  event: Event,
  { withinMs, log, signal }: PostOptions & { readonly signal: AbortSignal },
): Promise<void> {
  const { reason, message, metadata: { namespace = "" } } = event;
  const times = { perTryMs: withinMs, overallMs: withinMs };
  try {
    const posted = client.createEvent(namespace, event, { signal, ...times })
      .then(() => true);
    if (await waitUntil(posted, signal)) return;
    throw new Error(`no answer within ${withinMs} ms`);
  } catch (error) {
    const problem = describeError(error);
    log.info("Cannot post an event", { reason, event: message, problem });
  }
}
