/**
 * Which devices a pod has, by the resource that it asked for.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { ifPossible } from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import type { ObjectMeta, Pod } from "../../../kube/types.ts";
import type { ClaimClient } from "./published_devices.ts";
import type { ClaimStatus } from "./resource_claims.ts";

/** A device that a pod has. */
export interface PodDevice {
  /** The resource, as `vendor.com/nic`. */
  readonly resourceName: string;
  /** The device, as a PCI address. */
  readonly deviceId: string;
}

/** Which pod is meant. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

/** What is needed to learn of a pod's devices. */
export interface ResourceMapSource {
  /** The pod, as the API server has it. */
  readonly pod: Pod;
  /** Asked for claims, if the pod has any. */
  readonly client: ClaimClient;
  /** Whose slices are listed; the pod's `spec.nodeName` unless given. */
  readonly nodeName?: string | undefined;
  /** Where the kubelet tells of devices. */
  readonly kubeletSocket?: string | undefined;
  /** Where it notes them, for nodes without that socket. */
  readonly checkpointPath?: string | undefined;
  /** Told of devices that are left out. */
  readonly log: Pick<Log, "warn">;
  /** Gives up the reading. */
  readonly signal?: AbortSignal | undefined;
}

const KUBELET_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock";
const CHECKPOINT =
  "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/**
 * The devices of a pod, each of which is handed out once. All networks of a
 * pod take from one map, in the order in which they are attached.
 */
export class ResourceMap {
  /** The devices that are left, by resource. */
  readonly #left = new Map<string, string[]>();

  /** Makes a map; the devices of a resource are handed out in sorted order. */
  constructor(devices: readonly PodDevice[]) {
    const byResource = Map.groupBy(devices, ({ resourceName }) => resourceName);
    for (const [name, members] of byResource) {
      this.#left.set(name, members.map(({ deviceId }) => deviceId).sort());
    }
  }

  /**
   * Hands out the next device of a resource.
   *
   * @returns Its ID; undefined if there is no such resource, or nothing left of it
   */
  take(resourceName: string): string | undefined {
    return this.#left.get(resourceName)?.shift();
  }
}

/**
 * Reads which devices a pod has: those of device plugins from the kubelet, or
 * from its checkpoint if it has no socket; then those of the pod's claims.
 *
 * @throws {CniError} 11 for what may pass by itself, 5 or 6 for what cannot be
 *   read, 7 for what is wrong with the pod or its claims
 */
export async function readResourceMap(
  source: ResourceMapSource,
): Promise<ResourceMap> {
  const plugged = await readPluggedDevices(source);
  const claimed = hasClaims(source.pod) ? await readClaims(source) : [];
  return new ResourceMap([...plugged, ...claimed]);
}

/** Reads the devices of device plugins. */
async function readPluggedDevices(
  { pod: { metadata }, kubeletSocket, checkpointPath, signal }:
    ResourceMapSource,
): Promise<PodDevice[]> {
  const socket = kubeletSocket ?? KUBELET_SOCKET;
  if (ifPossible(() => Deno.statSync(socket)) !== undefined) {
    const { readPodResources } = await import("./pod_resources.ts");
    return await readPodResources(socket, getName(metadata), signal);
  }
  const { readCheckpoint } = await import("./checkpoint.ts");
  return readCheckpoint(checkpointPath ?? CHECKPOINT, getUid(metadata));
}

async function readClaims(
  { pod, client, nodeName, log, signal }: ResourceMapSource,
): Promise<PodDevice[]> {
  const { readClaimedDevices } = await import("./resource_claims.ts");
  const { namespace } = getName(pod.metadata);
  return await readClaimedDevices({
    status: pod.status ?? {},
    namespace,
    nodeName: nodeName ?? pod.spec?.nodeName,
    client,
    log,
    signal,
  });
}

/** Says whether the API server has to be asked. */
function hasClaims({ status = {} }: Pod): boolean {
  const { resourceClaimStatuses, extendedResourceClaimStatus }: ClaimStatus =
    status;
  return Boolean(extendedResourceClaimStatus) ||
    (resourceClaimStatuses ?? []).length > 0;
}

function getName({ namespace, name }: ObjectMeta = {}): PodName {
  if (namespace && name) return { namespace, name };
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "Pod name or namespace cannot be empty",
  );
}

function getUid({ uid }: ObjectMeta = {}): string {
  if (uid) return uid;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "Cannot find the devices of a pod without a UID in the kubelet's checkpoint",
  );
}
