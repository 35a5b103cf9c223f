/**
 * Finds the networks to attach a call's pod to.
 *
 * @module
 */

import { ErrorCode } from "../../../cni/error.ts";
import type { NetworkAttachmentDefinition } from "../../../kube/types.ts";
import type { DefinitionSource } from "./attachment_definitions.ts";
import type { Cluster, ClusterClient } from "../pod/cluster.ts";
import type { Delegate } from "../model/delegate.ts";
import type { ResourceMap } from "../devices/resource_map.ts";
import { NetworkError, type NetworkEvent } from "../model/failure.ts";
import {
  type NetworksQuery,
  resolveMaster,
  resolveNetworks,
} from "./resolve.ts";
import type { KnownPod } from "../pod/pod.ts";
import type { Session } from "../session.ts";

/** How long ADD waits for the event about a missing network, in milliseconds. */
const EVENT_MS = 500;

/**
 * Resolves the networks of a pod. ADD posts an event if a network is missing;
 * a DEL that looks for the same network would only repeat it.
 *
 * @param pod Undefined without Kubernetes: selects the configuration's networks
 * @param signal Aborts the requests
 * @returns The master first
 * @throws {CniError} 7 If a network is missing or malformed, 11 if the API
 *   cannot be asked
 */
export async function selectDelegates(
  session: Session,
  pod: KnownPod | undefined,
  signal: AbortSignal | undefined = session.call.signal,
): Promise<Delegate[]> {
  try {
    const delegates = await resolveNetworks(buildQuery(session, pod, signal));
    if (delegates.every(({ request }) => !request.defaultRoute)) {
      return delegates;
    }
    const { markDefaultRoutes } = await import("../route/default_route.ts");
    return markDefaultRoutes(delegates);
  } catch (error) {
    if (pod && session.call.command === "ADD") {
      await tellPodOf(session, pod, error);
    }
    throw error;
  }
}

/** Posts the event of an error about a network, if it has one. */
export async function tellPodOf(
  session: Session,
  pod: KnownPod,
  error: unknown,
): Promise<void> {
  if (!(error instanceof NetworkError)) return;
  // If the API cannot be asked for the network, it cannot take an event either.
  if (error.code === ErrorCode.TryAgainLater) return;
  await tellPod(session, pod, error.event);
}

/**
 * Resolves the configuration's master, for operations that concern no pod.
 *
 * @throws {CniError} As {@linkcode selectDelegates}
 */
export async function findMaster(
  session: Session,
  signal: AbortSignal | undefined = session.call.signal,
): Promise<Delegate> {
  return await resolveMaster(buildQuery(session, undefined, signal));
}

function buildQuery(
  session: Session,
  pod: KnownPod | undefined,
  signal: AbortSignal | undefined,
): NetworksQuery {
  const { call: { config, cniVersion }, k8s, cluster, log } = session;
  return {
    config,
    cniVersion,
    podNamespace: k8s.podNamespace,
    annotations: pod?.annotations,
    client: cluster.isConfigured ? definitionsOf(cluster) : undefined,
    takeDevice: pod && deviceTaker(session, pod),
    log,
    signal,
  };
}

/** Opens the client for the first definition: files need none. */
function definitionsOf(cluster: Cluster): DefinitionSource {
  return {
    async getNetworkAttachmentDefinition(
      ...key
    ): Promise<NetworkAttachmentDefinition> {
      const client = await cluster.client();
      return await client.getNetworkAttachmentDefinition(...key);
    },
  };
}

/** Looks up the devices when the first network needs one. */
function deviceTaker(
  session: Session,
  pod: KnownPod,
): (resourceName: string) => Promise<string | undefined> {
  let devices: Promise<ResourceMap> | undefined;
  return async (resourceName) => {
    devices ??= readDevices(session, pod);
    return (await devices).take(resourceName);
  };
}

async function readDevices(
  { cluster, log, call: { signal } }: Session,
  { namespace, name, object }: KnownPod,
): Promise<ResourceMap> {
  const client: ClusterClient = await cluster.client();
  const pod = object ?? await client.getPod(namespace, name, { signal });
  const { readResourceMap } = await import("../devices/resource_map.ts");
  return await readResourceMap({ pod, client, log, signal });
}

async function tellPod(
  { cluster, log }: Session,
  pod: KnownPod,
  event: NetworkEvent,
): Promise<void> {
  const { networkFailed, postEvents } = await import("../report/pod_events.ts");
  const events = [networkFailed(pod, event)];
  const client = await cluster.client();
  await postEvents(client, events, { withinMs: EVENT_MS, log });
}
