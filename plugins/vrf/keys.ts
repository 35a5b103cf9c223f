/**
 * The keys of vrf's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "vrf",
  summary: "puts the interface into a VRF",
  goPeer: "containernetworking/plugins plugins/meta/vrf",
  text:
    "Puts a container's interface into a virtual routing and forwarding domain (VRF). Its packets are routed by the VRF's table only, so a container can be on networks with the same addresses or the same routes. Chain it after the plugin that creates the interface.",
  example,
  required: [
    "vrfname",
  ],
  keys: {
    "vrfname": {
      text:
        "Name of the VRF, a valid interface name. Interfaces with the same `vrfname` share the VRF.",
      type: "string",
      default: "required",
    },
    "table": {
      text:
        "Routing table of the VRF. If the VRF exists, it must have this table. By default, tables count from 1.",
      type: "integer",
      default: "the lowest free table",
    },
  },
};
