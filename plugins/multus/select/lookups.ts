/**
 * What is looked up in the cluster when a network first needs it: definitions,
 * the pod's devices, and what is known of the pod.
 *
 * @module
 */

import type { PodEvidence } from "../../../kube/pod_evidence.ts";
import type { Log } from "../../../base/log/log.ts";
import type { NetworkAttachmentDefinition, Pod } from "../../../kube/types.ts";
import type { ResourceMap } from "../devices/resource_map.ts";
import type { Cluster } from "../pod/cluster.ts";
import type { PodInfo } from "../pod/pod.ts";
import type {
  DefinitionSource,
  DeviceSource,
} from "./attachment_definitions.ts";

/** The parts of a call that looking something up needs. */
export interface LookupCall {
  readonly call: { readonly signal?: AbortSignal | undefined };
  readonly cluster: Cluster;
  readonly log: Pick<Log, "warn">;
}

/** Opens the client for the first definition: files need none. */
export function definitionsOf(cluster: Cluster): DefinitionSource {
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
export function deviceLookup(
  session: LookupCall,
  pod: PodInfo,
): Required<Pick<DeviceSource, "takeDevice" | "hasDevice">> {
  let devices: Promise<ResourceMap> | undefined;
  const read = (): Promise<ResourceMap> =>
    devices ??= readDevices(session, pod);
  return {
    takeDevice: async (resourceName) => (await read()).take(resourceName),
    hasDevice: async (deviceId) => (await read()).has(deviceId),
  };
}

/** Reads the pod once, if the runtime has passed its annotations only. */
export function evidenceFinder(
  session: Pick<LookupCall, "cluster" | "call">,
  pod: PodInfo,
): () => Promise<PodEvidence> {
  let evidence: Promise<PodEvidence> | undefined;
  const find = async (): Promise<PodEvidence> => {
    const { evidenceOf } = await import("../../../kube/pod_evidence.ts");
    return evidenceOf(await readObject(session, pod));
  };
  return () => evidence ??= find();
}

async function readObject(
  { cluster, call: { signal } }: Pick<LookupCall, "cluster" | "call">,
  { namespace, name, object }: PodInfo,
): Promise<Pod> {
  if (object !== undefined) return object;
  const client = await cluster.client();
  return await client.getPod(namespace, name, { signal });
}

async function readDevices(
  session: LookupCall,
  known: PodInfo,
): Promise<ResourceMap> {
  const { cluster, log, call: { signal } } = session;
  const client = await cluster.client();
  const pod = await readObject(session, known);
  const { readResourceMap } = await import("../devices/resource_map.ts");
  return await readResourceMap({ pod, client, log, signal });
}
