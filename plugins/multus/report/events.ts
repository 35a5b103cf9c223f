/**
 * The events about a pod's networks, which `kubectl describe pod` shows.
 *
 * Source: multus-cni pkg/k8sclient `Eventf`; k8s.io/client-go
 * tools/record/event.go `makeEvent`.
 *
 * @module
 */

import { deadline, waitUntil } from "../../../base/deadline.ts";
import { describeError, ErrorCode } from "../../../base/error.ts";
import { formatTime } from "../../../base/time.ts";
import type { Log } from "../../../base/log/log.ts";
import type { IpConfig } from "../../../cni/result/result.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { Event } from "../../../kube/types.ts";
import type { Attached } from "../model/attachment.ts";
import {
  addressInUse,
  NetworkError,
  type NetworkEvent,
} from "../model/network_error.ts";
import type { Cluster, ClusterClient } from "../pod/cluster.ts";
import type { PodInfo } from "../pod/pod.ts";

/** The parts of a call that events need. */
export interface EventCall {
  readonly cluster: Pick<Cluster, "client">;
  readonly log: Pick<Log, "info">;
}

/** How long ADD waits for its events, in milliseconds. */
const EVENTS_MS = 500;

/**
 * Posts an event for each attachment, and for each address that an attachment did not
 * get. Lost events are not failures.
 */
export async function postAttachmentEvents(
  { log }: Pick<EventCall, "log">,
  client: ClusterClient,
  pod: PodInfo,
  attached: readonly Attached[],
): Promise<void> {
  const events = attached.flatMap(({ ifName, result, delegate, conflicts }) => [
    ...conflicts.map((conflict) =>
      networkFailed(pod, addressInUse(conflict, delegate.name))
    ),
    ...result.interfaces.length + result.ips.length > 0
      ? [addedInterface(pod, ifName, result.ips, delegate.name)]
      : [],
  ]);
  await postEvents(client, events, { withinMs: EVENTS_MS, log });
}

/** The pod of an event. */
export type EventSubject = Pick<
  PodInfo,
  "namespace" | "name" | "uid" | "object"
>;

/**
 * Builds the event for a new interface of a pod.
 *
 * @param ips The interface's addresses, as in a result
 * @param network The network, see {@linkcode Delegate.name}; "" for none
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

/** Builds the event for a network, or an address in it, that a pod does not get. */
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
  // The time format of Go's API types: RFC 3339 in whole seconds.
  const timestamp = formatTime(now);
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
 * Names an event after its pod and time. The clock has a resolution of milliseconds;
 * random lower digits distinguish events in the same millisecond.
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

/**
 * How long ADD waits for the event about a network, in milliseconds. ADD has failed,
 * and the event is what the pod's user sees.
 */
const EVENT_MS = 2000;

/** Posts the event of an error about a network, if there is an event. */
export async function postEventOf(
  { cluster, log }: EventCall,
  pod: PodInfo,
  error: unknown,
): Promise<void> {
  if (!(error instanceof NetworkError)) return;
  // If requests for the network fail, the event cannot be posted either.
  const { code, event: { reason } } = error;
  if (code === ErrorCode.TryAgainLater && reason === "NoNetworkFound") return;
  const events = [networkFailed(pod, error.event)];
  // An unavailable client must not hide the error.
  const createEvent: KubeClient["createEvent"] = async (...event) =>
    await (await cluster.client()).createEvent(...event);
  await postEvents({ createEvent }, events, { withinMs: EVENT_MS, log });
}

/** How events are posted. */
export interface PostOptions {
  /** How long to wait for all events, in milliseconds. */
  readonly withinMs: number;
  /** Receives the events that the API server refuses, or does not accept in time. */
  readonly log: Pick<Log, "info">;
}

/**
 * Posts events one at a time, and waits until the time limit. Lost events are not
 * failures, because the pod has its networks anyway.
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
