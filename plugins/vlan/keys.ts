/**
 * The keys of vlan's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import { DNS_KEY, ON_MASTER_KEYS } from "../parts/link/on_master_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "gives the container a VLAN of a host link",
  goPeer: "containernetworking/plugins plugins/main/vlan",
  text: "Puts a container into a VLAN of one of the host's links.",
  example,
  required: [
    "master",
  ],
  keys: {
    "ipam": {
      text:
        "The IPAM plugin. Without it, the interface is up and has no addresses.",
      type: "object",
      default: "none",
    },
    "master": {
      text: "The link whose VLAN the container joins. Required.",
      type: "string",
      names: "interface",
    },
    ...ON_MASTER_KEYS,
    "dns": DNS_KEY,
    "vlanId": {
      text: "The VLAN, 0 to 4094. 0 tags frames with a priority, but no VLAN.",
      type: "integer",
      default: "0",
    },
  },
};
