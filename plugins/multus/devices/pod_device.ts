/**
 * Devices of pods.
 *
 * @module
 */

/** A device that a pod has. */
export interface PodDevice {
  /** The resource, such as `vendor.com/nic`. */
  readonly resourceName: string;
  /** The device, such as a PCI address. */
  readonly deviceId: string;
}

/** Identifies the pod. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}
