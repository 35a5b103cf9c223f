/**
 * What the keys of static's configuration are.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/plugin_keys.ts";

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "static",
  summary: "assigns fixed addresses",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/ipam/static",
  text:
    "Assigns the addresses listed in the configuration, or passed by the runtime with each ADD. It creates no interfaces and stores nothing. It does not prevent two attachments from using the same address. To allocate addresses from a range, use host-local.",
  example: {
    "cniVersion": "1.0.0",
    "name": "mynet",
    "type": "ptp",
    "ipam": {
      "type": "static",
      "addresses": [
        {
          "address": "10.10.0.1/24",
          "gateway": "10.10.0.254",
        },
        {
          "address": "2001:db8:1::1/64",
          "gateway": "2001:db8:1::ff",
        },
      ],
      "routes": [
        {
          "dst": "0.0.0.0/0",
        },
        {
          "dst": "::/0",
        },
      ],
      "dns": {
        "nameservers": [
          "10.10.0.53",
        ],
        "search": [
          "example.test",
        ],
      },
    },
  },
  keys: {
    "addresses": {
      text: "List of `address` (with prefix length, required) and `gateway`",
      default: "none",
    },
    "routes": {
      text:
        "Copied into the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, `table`, `scope`",
      default: "none",
    },
    "dns": {
      text:
        "Copied into the result: `nameservers`, `domain`, `search`, `options`",
      default: "none",
    },
  },
};
