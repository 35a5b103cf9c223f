/**
 * The keys of ptp's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import { MASQUERADE_KEYS } from "../parts/firewall/masquerade/keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "connects each container to the host with a veth pair",
  goPeer: "containernetworking/plugins plugins/main/ptp",
  text:
    "Connects each container to the host with a veth pair. The host's end has the gateway address, and the container reaches everything through it, including its own subnet.",
  example,
  required: [
    "ipam",
  ],
  keys: {
    "ipam": {
      text: "The IPAM plugin, `type`, and its configuration.",
      type: "object",
      default: "required",
    },
    "mtu": {
      text: "MTU of both ends in bytes; 0 or less means the default.",
      type: "integer",
      default: "the kernel's",
    },
    "ipMasq": {
      text: "Whether to masquerade (see below).",
      type: "boolean",
      default: "`false`",
    },
    ...MASQUERADE_KEYS,
    "ipMasqBackend": {
      text:
        "Which firewall backend to use (see below). Ignored unless `ipMasq` is true.",
      type: "`nftables`, `iptables`",
      default: "what the host supports",
      since: "1.6.0",
    },
    "dns": {
      text:
        "`nameservers`, `domain`, `search`, `options`. Any of these keys, even an empty list, overrides the IPAM plugin's result.",
      type: "object",
      default: "the IPAM plugin's",
    },
  },
};
