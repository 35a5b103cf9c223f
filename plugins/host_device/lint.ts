/**
 * Mistakes in a configuration of host-device.
 *
 * @module
 */

import type { Linted } from "../../metadata/plugin_metadata.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";
import { lintConflictCheck } from "../parts/address/conflict_check_key.ts";
import { unlessNoAddress } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";

/** Keys that name the device. */
const DEVICE_KEYS = ["device", "hwaddr", "kernelpath", "pciBusID"];

/** A function of a PCI device. Source: lspci(8), "Slot". */
const PCI_ADDRESS = /^[\da-f]{4,}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/i;

/** See {@linkcode Lint}. */
export function lint(linted: Linted): Problem[] {
  const { conf, capabilities, hasDevice } = linted;
  const [first, ...more] = DEVICE_KEYS.filter((key) => conf[key]);
  const { pciBusID, hwaddr } = conf;
  const isNamed = hasDevice || capabilities["deviceID"] === true ||
    first !== undefined;
  if (!isNamed) {
    return [
      errorAt(
        [],
        'no device: set "device", "hwaddr", "kernelpath", "pciBusID", ' +
          'or the capability "deviceID"',
      ),
    ];
  }
  return [
    ...typeof pciBusID === "string" && pciBusID !== "" &&
        !PCI_ADDRESS.test(pciBusID)
      ? [
        warningAt(
          ["pciBusID"],
          `"${pciBusID}" is not like 0000:00:1f.6, with domain, bus, slot and function`,
        ),
      ]
      : [],
    ...typeof hwaddr === "string" && hwaddr !== "" &&
        unlessNoAddress(() => Mac.parse(hwaddr)) === undefined
      ? [errorAt(["hwaddr"], `invalid MAC address: ${hwaddr}`)]
      : [],
    ...lintConflictCheck(linted),
    ...more.map((key) =>
      warningAt([key], `only one key may name the device: "${first}" does`)
    ),
  ];
}
