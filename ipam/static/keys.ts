/**
 * The keys of static's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "static",
  summary: "assigns fixed addresses",
  goPeer: "containernetworking/plugins plugins/ipam/static",
  text:
    "Assigns the addresses listed in the configuration, or passed by the runtime with each ADD. It creates no interfaces and stores nothing. It does not prevent two attachments from using the same address. To allocate addresses from a range, use host-local.",
  example,
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
