/**
 * What is wrong with a configuration of host-device.
 *
 * @module
 */

import type { Linted } from "../../cni/tools/about.ts";
import { errorAt, type Problem } from "../../cni/tools/problem.ts";

/** Keys that name the device. */
const DEVICE_KEYS = ["device", "hwaddr", "kernelpath", "pciBusID"];

/** See {@linkcode Lint}. */
export function lint({ conf, capabilities, hasDevice }: Linted): Problem[] {
  const isNamed = hasDevice || capabilities["deviceID"] === true ||
    DEVICE_KEYS.some((key) => conf[key]);
  return isNamed ? [] : [
    errorAt(
      [],
      'no device: set "device", "hwaddr", "kernelpath", "pciBusID", ' +
        'or the capability "deviceID"',
    ),
  ];
}
