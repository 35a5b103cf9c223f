/**
 * The devices of a pod, by requested resource.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { exists } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import type { ClaimStatus, ObjectMeta, Pod } from "../../../kube/types.ts";
import type { PodDevice, PodName } from "./pod_resources.ts";
import type { ClaimClient } from "./published_devices.ts";

/** The input of {@linkcode readResourceMap}. */
export interface ResourceMapSource {
  /** The pod's object from the API server. */
  readonly pod: Pod;
  /** Reads the pod's claims, if any. */
  readonly client: ClaimClient;
  /** Node of the slices; the pod's `spec.nodeName` by default. */
  readonly nodeName?: string | undefined;
  /** The kubelet's pod-resources socket. */
  readonly kubeletSocket?: string | undefined;
  /** The kubelet's checkpoint, for nodes without that socket. */
  readonly checkpointPath?: string | undefined;
  /** Receives the omitted devices. */
  readonly log: Pick<Log, "warn">;
  /** Aborts the requests. */
  readonly signal?: AbortSignal | undefined;
}

const KUBELET_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock";
const CHECKPOINT =
  "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/**
 * The devices of a pod. Each device is assigned once: all networks of the pod take
 * devices from the same map, in the order of attachment.
 */
export class ResourceMap {
  /** The devices that are not assigned yet, by resource. */
  readonly #left = new Map<string, string[]>();
  readonly #ids: ReadonlySet<string>;

  /** Creates a map that assigns the devices of a resource in sorted order. */
  constructor(devices: readonly PodDevice[]) {
    this.#ids = new Set(devices.map(({ deviceId }) => deviceId));
    const byResource = Map.groupBy(devices, ({ resourceName }) => resourceName);
    for (const [name, members] of byResource) {
      this.#left.set(name, members.map(({ deviceId }) => deviceId).sort());
    }
  }

  /** Reports whether the pod has a device, even if it is already assigned. */
  has(deviceId: string): boolean {
    return this.#ids.has(deviceId);
  }

  /**
   * Assigns the next device of a resource.
   *
   * @returns Its ID; undefined if the resource is unknown or exhausted
   */
  take(resourceName: string): string | undefined {
    return this.#left.get(resourceName)?.shift();
  }
}

/**
 * Reads the devices of a pod: devices of device plugins from the kubelet, or from its
 * checkpoint if it has no socket; then the devices of the pod's claims.
 *
 * @throws {CniError} 11 for temporary failures, 5 or 6 for unreadable files, 7 for
 *   a wrong pod or wrong claims
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
  if (exists(socket)) {
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

/** Reports whether the pod's devices require requests to the API server. */
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
