/**
 * The devices of a pod's resource claims: dynamic resource allocation.
 *
 * @module
 */

import { invalidConfig } from "../../../base/error.ts";
import { JoinedSignal } from "../../../base/deadline.ts";
import type { Log } from "../../../base/log/log.ts";
import type {
  AllocatedDevice,
  ClaimReference,
  ClaimStatus,
  ExtendedResources,
} from "../../../kube/types.ts";
import {
  type ClaimSelector,
  DEVICE_ID,
  DeviceDirectory,
  type PublishedDevice,
  RESOURCE_NAME,
} from "./published_devices.ts";
import type { PodDevice } from "./pod_resources.ts";

const TIMEOUT_MS = 20_000;

/** The input of the lookup of claimed devices. */
export interface ClaimSource extends ClaimSelector {
  readonly status: ClaimStatus;
  /** Receives the omitted devices. */
  readonly log: Pick<Log, "warn">;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads the devices that are allocated to a pod's claims, within 20 s.
 *
 * A claimed device is omitted unless its driver publishes attributes for networks,
 * because a pod can also claim, for example, a GPU. A device for an extended resource
 * must belong to that resource.
 *
 * @throws {CniError} 11 for temporary failures, 7 for wrong claims
 */
export async function readClaimedDevices(
  { status, log, signal, ...scope }: ClaimSource,
): Promise<PodDevice[]> {
  using limit = new JoinedSignal(TIMEOUT_MS, signal);
  const directory = new DeviceDirectory(scope, limit.signal, TIMEOUT_MS);
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
    log.warn("Skipped a resource claim that was not created", { claim: name });
    return [];
  }
  const allocated = await directory.listAllocated(claim);
  const devices = await Promise.all(allocated.map(async (result) => {
    const device = toPodDevice(await directory.findPublished(result));
    if (typeof device !== "string") return [device];
    const { driver, pool, device: name } = result;
    const fields = { claim, driver, pool, device: name, why: device };
    log.warn("Skipped a device of a resource claim", fields);
    return [];
  }));
  return devices.flat();
}

/** Lists the devices for extended resources. */
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
    throw invalidConfig(`request ${requestName} not found in claim ${claim}`);
  });
  return await Promise.all(wanted.map(async ({ result, resourceName }) => {
    const published = await directory.findPublished(result);
    return requireResource(result, published, resourceName);
  }));
}

/**
 * Returns a device's attributes for networks, or the reason why networks cannot use
 * it.
 */
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
  throw invalidConfig(
    `Cannot use device "${name}" of request "${request}" as ` +
      `"${resourceName}": ${flaw}`,
  );
}
