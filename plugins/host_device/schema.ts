/**
 * The configuration schema of host-device.
 *
 * @module
 */

import * as z from "zod/mini";
import type { SchemaOutput } from "../../cni/json/json.ts";
import { netConf, once, optional } from "../../cni/config/types.ts";
import { dnsOverrideSchema } from "../parts/dns_override.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/host-device/host-device.go
 * `NetConf`.
 */
export const hostDeviceSchema = once(() => {
  const text = optional(z.string());
  return netConf({
    /** Name of the device. */
    device: text,
    /** Its MAC. */
    hwaddr: text,
    /** Its directory in sysfs, such as `/sys/devices/pci0000:00/0000:00:1f.6`. */
    kernelpath: text,
    /** Its PCI address, such as `0000:00:1f.6`. */
    pciBusID: text,
    runtimeConfig: optional(
      z.looseObject({
        /** A PCI address, or a device of the auxiliary bus. */
        deviceID: text,
      }),
    ),
    dns: dnsOverrideSchema(),
  });
});

/** The decoded configuration. */
export type HostDeviceConfig = SchemaOutput<
  ReturnType<typeof hostDeviceSchema>
>;
