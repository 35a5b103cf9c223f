/**
 * The configuration schema of host-device.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, parsedText } from "../../cni/config/types.ts";
import { AddressError } from "../../net/ip.ts";
import { dnsOverrideSchema } from "../parts/address/dns_override.ts";

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
    kernelpath: optional(parsedText(parseKernelPath)),
    /**
     * Its PCI address, such as `0000:00:1f.6`. multus also writes an auxiliary
     * device here.
     */
    pciBusID: optional(parsedText(parseDeviceId)),
    /** Whether the device keeps the addresses, routes and rules of the host. */
    useInterfaceNetwork: optional(z.boolean()),
    /** Whether to ask the network about an address before the container uses it. */
    conflictCheck: optional(z.boolean()),
    /** Directory of the records. */
    dataDir: text,
    runtimeConfig: optional(
      z.looseObject({
        /** A PCI address, or a device of the auxiliary bus. */
        deviceID: optional(parsedText(parseDeviceId)),
      }),
    ),
    dns: dnsOverrideSchema(),
  });
});

/** A PCI address, or the name of an auxiliary device, such as `mlx5_core.sf.2`. */
const DEVICE_ID =
  /^([\da-f]{4,}:[\da-f]{2}:[\da-f]{2}\.\d|[\w-]+(\.[\w-]+)*)?$/i;

/** Refuses paths that lead out of the directory with the devices of a bus. */
function parseDeviceId(text: string): string {
  if (DEVICE_ID.test(text)) return text;
  throw new AddressError(
    `expected a device such as 0000:00:1f.6 or mlx5_core.sf.2, got "${text}"`,
  );
}

function parseKernelPath(path: string): string {
  if (!path.split("/").includes("..")) return path;
  throw new AddressError(`expected a path without "..", got "${path}"`);
}

/** The decoded configuration. */
export type HostDeviceConfig = SchemaOutput<
  ReturnType<typeof hostDeviceSchema>
>;
