/**
 * The keys of vlan's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
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
    "mtu": {
      text: "At most the master's. 0 means the master's.",
      type: "integer, bytes",
      default: "the master's",
    },
    "linkInContainer": {
      text: "The master is in the container, not on the host.",
      type: "boolean",
      default: "`false`",
      since: "1.3.0",
    },
    "enabledad": {
      text:
        "With `false`, IPv6 addresses are not [checked for duplicates](macvlan.md#duplicate-addresses).",
      type: "boolean",
      default: "the kernel's setting",
    },
    "dns": {
      text:
        "`nameservers`, `domain`, `search` and `options` for the container.",
      type: "object",
      default: "from the IPAM plugin",
    },
    "vlanId": {
      text: "The VLAN, 0 to 4094. 0 tags frames with a priority, but no VLAN.",
      type: "integer",
      default: "0",
    },
  },
};
