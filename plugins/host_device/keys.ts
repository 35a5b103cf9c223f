/**
 * The keys of host-device's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import { CONFLICT_CHECK_KEY } from "../parts/address/conflict_check_key.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "moves a host device into the container",
  goPeer: "containernetworking/plugins plugins/main/host-device",
  text:
    "Moves one of the host's devices into a container: a network card, a virtual function (VF), or any other link.",
  example,
  keys: {
    "ipam": {
      text: "IPAM plugin. Without it, the device gets no address.",
      type: "object",
    },
    "device": {
      text:
        "Name of the device on the host, such as `ens5`. An alternative name also works.",
      type: "string",
      names: "interface",
    },
    "hwaddr": {
      text: "Its MAC (48 bits).",
      type: "string",
      names: "interface",
    },
    "kernelpath": {
      text:
        "Its directory in sysfs, such as `/sys/devices/pci0000:00/0000:00:1f.6`.",
      type: "string",
      names: "interface",
    },
    "pciBusID": {
      text: "Its PCI address, such as `0000:00:1f.6`.",
      type: "string",
      since: "0.8.1",
      names: "interface",
    },
    "runtimeConfig": {
      text:
        "`deviceID`, set by the runtime: a PCI address, or a device of the auxiliary bus such as `mlx5_core.sf.2` (see below).",
      type: "object",
    },
    "runtimeConfig.deviceID": {
      since: "0.8.6",
      names: "interface",
    },
    "useInterfaceNetwork": {
      text:
        "Whether the container gets the addresses, routes and rules that the device has on the host (see below).",
      type: "boolean",
    },
    "conflictCheck": CONFLICT_CHECK_KEY,
    "dataDir": {
      text:
        "Directory of the records of devices that are in containers. The default is `/run/cni/host-device`.",
      type: "string",
      names: "directory",
      usual: [
        "/run/cni/host-device",
      ],
    },
    "dns": {
      text: "Overrides the IPAM plugin's settings.",
      type: "object",
    },
  },
};
