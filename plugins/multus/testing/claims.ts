/**
 * Objects of dynamic resource allocation, for tests.
 *
 * @module
 */

import type {
  AllocatedDevice,
  DeviceAttribute,
  ResourceClaim,
  ResourceSlice,
} from "../../../kube/types.ts";

/** The default driver of devices. */
export const DRIVER = "sriovnetwork.k8snetworkplumbingwg.io";
/** The default pool of devices. */
export const POOL = "node1";

/** An object to put into an API server. */
export type Put<T> = T & {
  readonly metadata: { readonly name: string; readonly namespace?: string };
};

/** A driver's description of a device for CNI. */
export interface CniAttributes {
  readonly id?: string;
  readonly resource?: string;
}

/** Builds a device allocated to a claim. */
export function allocated(
  device: string,
  more: Partial<AllocatedDevice> = {},
): AllocatedDevice {
  return { request: "req-0", driver: DRIVER, pool: POOL, device, ...more };
}

/** Builds a claim, with or without allocated devices. */
export function claimOf(
  name: string,
  results?: readonly AllocatedDevice[],
  namespace = "test",
): Put<ResourceClaim> {
  const status = results && { allocation: { devices: { results } } };
  return { metadata: { name, namespace }, ...status && { status } };
}

/** Builds a slice. Devices without attributes for CNI have other attributes. */
export function sliceOf(
  name: string,
  devices: Readonly<Record<string, CniAttributes>>,
  { driver = DRIVER, pool = POOL, nodeName = "node1" } = {},
): Put<ResourceSlice> {
  const spec = {
    driver,
    nodeName,
    pool: { name: pool, generation: 1, resourceSliceCount: 1 },
    devices: Object.entries(devices).map(([name, attributes]) => ({
      name,
      attributes: attributesOf(attributes),
    })),
  };
  return { metadata: { name }, spec };
}

function attributesOf(
  { id, resource }: CniAttributes,
): Record<string, DeviceAttribute> {
  return {
    "example.com/numa": { int: 1 },
    ...id !== undefined && { "k8s.cni.cncf.io/deviceID": { string: id } },
    ...resource !== undefined &&
      { "k8s.cni.cncf.io/resourceName": { string: resource } },
  };
}
