/**
 * The devices of a pod that it claims: dynamic resource allocation.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { deadline } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import type { AllocatedDevice } from "../../../kube/types.ts";
import {
  DEVICE_ID,
  DeviceDirectory,
  type PublishedDevice,
  RESOURCE_NAME,
  type Scope,
} from "./published_devices.ts";
import type { PodDevice } from "./resource_map.ts";

const TIMEOUT_MS = 20_000;

/**
 * What a pod's status says of its claims.
 *
 * Source: k8s.io/api/core/v1/types.go `PodStatus`.
 */
export interface ClaimStatus {
  /** One for each claim of the pod's specification. */
  readonly resourceClaimStatuses?: readonly ClaimReference[];
  /** The claim that stands for extended resources of the containers. */
  readonly extendedResourceClaimStatus?: ExtendedResources | null;
}

/** A claim of a pod's specification. */
export interface ClaimReference {
  /** The specification's name for it. */
  readonly name: string;
  /** The claim; absent if none had to be made. */
  readonly resourceClaimName?: string;
}

/** A claim, and which of its requests stands for which extended resource. */
export interface ExtendedResources {
  readonly resourceClaimName: string;
  readonly requestMappings?: readonly {
    readonly requestName: string;
    readonly resourceName: string;
  }[];
}

/** What is needed to learn what a pod was given for its claims. */
export interface ClaimSource extends Scope {
  readonly status: ClaimStatus;
  /** Told of devices that are left out. */
  readonly log: Pick<Log, "warn">;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads which devices a pod was given for its claims. It takes at most 20 s.
 *
 * A device of a claim is left out unless its driver says what it is for
 * networks: a pod may well claim a GPU too. But one that stands for an extended
 * resource must be of that resource.
 *
 * @throws {CniError} 11 for what may pass by itself, 7 for what is wrong with
 *   the claims
 */
export async function readClaimedDevices(
  { status, log, signal, ...scope }: ClaimSource,
): Promise<PodDevice[]> {
  const limit = deadline(TIMEOUT_MS, signal);
  const directory = new DeviceDirectory(scope, limit, TIMEOUT_MS);
  const { resourceClaimStatuses, extendedResourceClaimStatus } = status;
  const devices = await Promise.all([
    ...(resourceClaimStatuses ?? [])
      .map((reference) => listClaimed(reference, directory, log)),
    listExtended(extendedResourceClaimStatus, directory),
  ]);
  return devices.flat();
}

/** Lists the devices of a claim that are for networks. */
async function listClaimed(
  { name, resourceClaimName: claim }: ClaimReference,
  directory: DeviceDirectory,
  log: Pick<Log, "warn">,
): Promise<PodDevice[]> {
  if (!claim) {
    log.warn("Left out a claim that was not made", { claim: name });
    return [];
  }
  const allocated = await directory.listAllocated(claim);
  const devices = await Promise.all(allocated.map(async (result) => {
    const device = toPodDevice(await directory.findPublished(result));
    if (typeof device !== "string") return [device];
    const { driver, pool, device: name } = result;
    const fields = { claim, driver, pool, device: name, why: device };
    log.warn("Left out a device of a claim", fields);
    return [];
  }));
  return devices.flat();
}

/** Lists the devices that stand for extended resources. */
async function listExtended(
  extended: ExtendedResources | null | undefined,
  directory: DeviceDirectory,
): Promise<PodDevice[]> {
  if (!extended) return [];
  const { resourceClaimName: claim, requestMappings = [] } = extended;
  const allocated = await directory.listAllocated(claim);
  const wanted = requestMappings.flatMap(({ requestName, resourceName }) => {
    const results = allocated.filter(({ request }) => request === requestName);
    if (results.length > 0) {
      return results.map((result) => ({ result, resourceName }));
    }
    throw invalid(`request ${requestName} not found in claim ${claim}`);
  });
  return await Promise.all(wanted.map(async ({ result, resourceName }) => {
    const published = await directory.findPublished(result);
    return requireResource(result, published, resourceName);
  }));
}

/** Returns what networks need to know of a device, or why they cannot use it. */
function toPodDevice(
  published: PublishedDevice | undefined,
): PodDevice | string {
  if (!published) return "no resource slice has it";
  const { deviceId, resourceName } = published;
  if (!deviceId) return `it has no attribute "${DEVICE_ID}"`;
  if (!resourceName) return `it has no attribute "${RESOURCE_NAME}"`;
  return { deviceId, resourceName };
}

function requireResource(
  { device: name, request }: AllocatedDevice,
  published: PublishedDevice | undefined,
  resourceName: string,
): PodDevice {
  const device = toPodDevice(published);
  const flaw = typeof device === "string"
    ? device
    : `its "${RESOURCE_NAME}" is "${device.resourceName}"`;
  if (typeof device !== "string" && device.resourceName === resourceName) {
    return device;
  }
  throw invalid(
    `Cannot use device "${name}" of request "${request}" as ` +
      `"${resourceName}": ${flaw}`,
  );
}

function invalid(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}
